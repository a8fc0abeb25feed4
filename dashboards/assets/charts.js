// Charts that people zoom into: each <figure class="chart"> holds its data as JSON and is drawn by uPlot.
"use strict";

// How far from a curve's own points, in usual distances between them, it still has a value.
const REACH = 3.5;
const HEIGHT = 230;
// Nobody tells more overlapping ranges apart.
const MOST_BANDS = 8;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shade = (color, alpha) => color + Math.round(alpha * 255).toString(16).padStart(2, "0");

/** A number with four digits, as short as possible. */
function formatted(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

class Chart {
  constructor(root) {
    this.root = root;
    this.data = JSON.parse(root.querySelector("script").textContent);
    this.shown = this.data.legend.map(() => true);
    this.at = null;
    this.plots = [];
    this.tables = this.data.panels.map((panel) => this.table(panel));
    this.wire();
    this.draw();
  }

  /** The points of all curves of a panel on one axis, each with its least and greatest. */
  table(panel) {
    for (const line of panel.lines) {
      line.x = this.data.xs[line.x];
      line.low ??= line.value;
      line.high ??= line.value;
      const steps = line.x.slice(1).map((x, at) => x - line.x[at]).sort((a, b) => a - b);
      line.reach = panel.measured ? REACH * (steps[steps.length >> 1] ?? 0) : 0;
    }
    return uPlot.join(panel.lines.map((line) => [line.x, line.value, line.low, line.high]));
  }

  wire() {
    const { root } = this;
    root.querySelectorAll("input[type=checkbox]").forEach((box, key) => {
      box.addEventListener("change", () => this.show(key, box.checked));
    });
    root.querySelector("[data-all]")?.addEventListener("click", () => {
      const on = !this.shown.every(Boolean);
      root.querySelectorAll("input[type=checkbox]").forEach((box, key) => {
        box.checked = on;
        this.show(key, on);
      });
    });
    const actions = { in: () => this.zoom(0.5), out: () => this.zoom(2), reset: () => this.reset() };
    for (const [name, action] of Object.entries(actions)) {
      root.querySelector(`[data-zoom=${name}]`).addEventListener("click", action);
    }
    root.querySelectorAll(".panel").forEach((panel) => {
      panel.addEventListener("keydown", (event) => this.key(event));
      panel.addEventListener("blur", () => this.point(null));
    });
    let width = 0;
    new ResizeObserver(() => {
      const now = root.querySelector(".plot").clientWidth;
      if (now === width) return;
      width = now;
      this.resize();
    }).observe(root);
  }

  draw() {
    const range = this.plots.length ? this.range() : this.whole();
    this.plots.forEach((plot) => plot.destroy());
    const colors = matchMedia("(prefers-color-scheme: dark)").matches && !printing ? "dark" : "light";
    this.root.querySelectorAll(".swatch").forEach((swatch, key) => {
      swatch.style.stroke = this.color(key, colors);
    });
    this.plots = this.data.panels.map((panel, at) => {
      const target = this.root.querySelectorAll(".plot")[at];
      return new uPlot(this.options(panel, target.clientWidth, colors), this.tables[at], target);
    });
    this.setRange(...range);
  }

  color(key, theme) {
    const palette = this.data.palette[theme];
    return palette[key % palette.length];
  }

  dash(key, width) {
    const dashes = this.data.palette.dashes;
    return dashes[Math.floor(key / this.data.palette.light.length) % dashes.length].map((part) => part * width);
  }

  options(panel, width, theme) {
    const ink = css("--ink-soft"), grid = css("--rule");
    const axis = { stroke: ink, font: "12px system-ui, sans-serif", grid: { stroke: grid, width: 1 },
                   ticks: { stroke: grid, width: 1, size: 4 } };
    const series = [{}], bands = [];
    for (const line of panel.lines) {
      const stroke = this.color(line.key, theme), show = this.shown[line.key], points = { show: false };
      series.push({ stroke, show, width: 1.6, dash: this.dash(line.key, 2), points: { show: line.x.length === 1 } },
                  { show, points }, { show, points });
      if (panel.lines.length <= MOST_BANDS) {
        bands.push({ series: [series.length - 1, series.length - 2], fill: shade(stroke, 0.18) });
      }
    }
    return {
      width: Math.max(width, 120), height: HEIGHT, series, bands, legend: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: false, range: (_, low, high) => [low, high] },
                y: { range: (_, low, high) => uPlot.rangeNum(panel.zero ? Math.min(0, low) : low, high, 0.08, true) } },
      axes: [{ ...axis, size: 26 }, { ...axis, size: 54, values: (_, ticks) => ticks.map(formatted) }],
      cursor: { drag: { x: true, y: false, dist: 4 }, points: { show: false }, y: false,
                bind: { dblclick: () => () => this.reset() } },
      hooks: {
        setScale: [(plot, scale) => scale === "x" && this.follow(plot)],
        setCursor: [(plot) => this.hover(plot)],
        draw: [(plot) => this.cross(plot, panel, theme)],
      },
    };
  }

  /** Mark the ends of curves whose runs ended early. */
  cross(plot, panel, theme) {
    const { ctx, bbox } = plot, arm = 4 * devicePixelRatio;
    ctx.lineWidth = 1.6 * devicePixelRatio;
    for (const line of panel.lines.filter(({ key, ended_early }) => ended_early && this.shown[key])) {
      const end = line.value.findLastIndex((value) => value !== null);
      const x = plot.valToPos(line.x[end], "x", true), y = plot.valToPos(line.value[end], "y", true);
      if (x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = this.color(line.key, theme);
      ctx.beginPath();
      for (const side of [-1, 1]) {
        ctx.moveTo(x - arm, y - side * arm);
        ctx.lineTo(x + arm, y + side * arm);
      }
      ctx.stroke();
    }
  }

  range() {
    const { min, max } = this.plots[0].scales.x;
    return [min, max];
  }

  /** From the start to the last point of all panels: they share their axis. */
  whole() {
    const { x, xs } = this.data;
    return [x.begins, Math.max(...xs.map((one) => one[one.length - 1]))];
  }

  setRange(min, max) {
    const [first, last] = this.whole();
    const low = Math.max(min, first), high = Math.min(max, last);
    if (!(high > low)) return;
    this.following = true;
    this.plots.forEach((plot) => plot.setScale("x", { min: low, max: high }));
    this.following = false;
    this.fill();
  }

  follow(plot) {
    const { min, max } = plot.scales.x;
    if (!this.following && this.plots.includes(plot) && min !== null) this.setRange(min, max);
  }

  reset() {
    this.setRange(...this.whole());
  }

  zoom(times) {
    const [min, max] = this.range();
    const middle = this.at ?? (min + max) / 2, half = ((max - min) * times) / 2;
    this.setRange(middle - half, middle + half);
  }

  show(key, on) {
    this.shown[key] = on;
    this.root.querySelectorAll("tbody tr")[key].classList.toggle("off", !on);
    this.plots.forEach((plot, at) => {
      this.data.panels[at].lines.forEach((line, index) => {
        if (line.key !== key) return;
        plot.batch(() => [1, 2, 3].forEach((part) => plot.setSeries(3 * index + part, { show: on })));
      });
    });
  }

  resize() {
    this.plots.forEach((plot, at) => {
      const target = this.root.querySelectorAll(".plot")[at];
      if (target.clientWidth) plot.setSize({ width: target.clientWidth, height: HEIGHT });
    });
  }

  hover(plot) {
    if (!this.plots.includes(plot) || this.pointing) return;
    const { left, idx } = plot.cursor;
    this.point(left >= 0 && idx !== null ? plot.data[0][idx] : null);
  }

  /** Points at a position on the axis in all panels, or at none. */
  point(x) {
    this.at = x;
    this.pointing = true;
    for (const plot of this.plots) {
      plot.setCursor({ left: x === null ? -10 : plot.valToPos(x, "x"), top: 10 }, false);
    }
    this.pointing = false;
    this.fill();
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1 };
    const actions = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
                      "0": () => this.reset(), Escape: () => (this.point(null), this.reset()) };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      const [min, max] = this.range(), step = ((max - min) / 100) * moves[event.key] * (event.shiftKey ? 10 : 1);
      this.point(Math.min(max, Math.max(min, (this.at ?? (step > 0 ? min : max)) + step)));
    } else if (event.key in actions) actions[event.key]();
    else return;
    event.preventDefault();
  }

  /** Writes into the legend what the curves have where the cursor is, or over all that is visible. */
  fill() {
    const { root, data, at } = this;
    const where = root.querySelector(".where");
    where.textContent = at === null ? "" : `at ${formatted(at)} ${data.x.unit}`.trim();
    const rows = [...root.querySelectorAll("tbody tr")];
    data.panels.forEach((panel, column) => {
      root.querySelectorAll("thead .what")[column].textContent = at !== null ? "" : panel.measured ? "mean" : "last";
      rows.forEach((row) => (row.cells[column + 1].textContent = ""));
      for (const line of panel.lines) {
        rows[line.key].cells[column + 1].textContent = at === null ? this.visible(panel, line) : near(line, at);
      }
    });
  }

  visible(panel, line) {
    const [min, max] = this.range();
    const seen = [...line.x.keys()].filter((at) => line.value[at] !== null && line.x[at] >= min && line.x[at] <= max);
    if (!seen.length) return "";
    return formatted(panel.measured ? mean(line, seen) : line.value[seen[seen.length - 1]]);
  }
}

/** The mean of some points of a curve: each counts for the time around it, as far as the curve reaches. */
function mean({ x, value, reach }, points) {
  if (points.length === 1) return value[points[0]];
  const apart = points.slice(1).map((at, index) => Math.min(x[at] - x[points[index]], reach));
  const weights = points.map((_, index) => (apart[index - 1] ?? apart[index]) + (apart[index] ?? apart[index - 1]));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return points.reduce((sum, at, index) => sum + value[at] * weights[index], 0) / total;
}

/** The value of a curve nearest to a position on the axis, with its range if any; empty beyond the curve. */
function near(line, at) {
  const { x, value, low, high, reach } = line, last = x.length - 1;
  if (at < x[0] - reach || at > x[last] + reach) return "";
  let next = x.findIndex((one) => one >= at);
  if (next < 0) next = last;
  const index = next > 0 && at - x[next - 1] < x[next] - at ? next - 1 : next;
  if (value[index] === null) return "";
  const [least, most] = [formatted(low[index]), formatted(high[index])];
  return formatted(value[index]) + (least === most ? "" : ` (${least} – ${most})`);
}

let printing = false;
const charts = [...document.querySelectorAll("figure.chart")].map((root) => new Chart(root));
const again = () => charts.forEach((chart) => chart.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
matchMedia("print").addEventListener("change", (query) => { printing = query.matches; again(); });
