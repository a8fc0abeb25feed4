// Charts with zoom: each <figure class="chart"> holds its data as JSON and is drawn by uPlot.
"use strict";

// How far from a curve's own points, in usual distances between them, it still has a value.
const REACH = 3.5;
const HEIGHT = 230;
// More overlapping ranges cannot be distinguished.
const MOST_BANDS = 8;
// Pixels from the pointer to a curve that it points at. Width of a curve, and of its parts while other runs used its GPU.
const NEAR = 24, WIDTH = 1.8, THIN = 0.7;
const FONT = "12px system-ui, sans-serif";

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
    this.focused = null;
    this.plots = [];
    this.rows = [...root.querySelectorAll("tbody tr")];
    this.values = this.data.panels.map(() => []);
    this.foreign = this.data.panels.map(() => []);
    this.sorted = null;
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
    const { crowd } = panel, tables = panel.lines.map((line) => [line.x, line.value, line.low, line.high]);
    if (crowd?.value) tables.push([this.data.xs[crowd.x], crowd.low, crowd.high, crowd.value]);
    return uPlot.join(tables);
  }

  wire() {
    const { root } = this;
    const boxes = [...root.querySelectorAll("input[type=checkbox]")];
    boxes.forEach((box, key) => box.addEventListener("change", () => this.show(key, box.checked)));
    this.rows.forEach((row, key) => {
      for (const name of ["mouseenter", "focusin"]) row.addEventListener(name, () => this.focus(key));
      for (const name of ["mouseleave", "focusout"]) row.addEventListener(name, () => this.focus(null));
    });
    root.querySelectorAll("[data-sort]").forEach((button, column) => {
      button.addEventListener("click", () => this.sort(column));
    });
    root.querySelector("[data-all]")?.addEventListener("click", () => {
      const on = !this.shown.every(Boolean);
      boxes.forEach((box, key) => {
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
      panel.addEventListener("blur", () => (this.point(null), this.focus(null)));
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
    this.plots = this.data.panels.map((panel, at) => {
      const target = this.root.querySelectorAll(".plot")[at];
      return new uPlot(this.options(panel, target.clientWidth), this.tables[at], target);
    });
    this.setRange(...range);
  }

  dash(key, width) {
    return this.data.styles[key].dash.map((part) => part * width);
  }

  options(panel, width) {
    const ink = css("--ink-soft"), grid = css("--rule");
    const axis = { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 },
                   ticks: { stroke: grid, width: 1, size: 4 } };
    const series = [{}], bands = [];
    const { crowd } = panel, points = { show: false };
    const outline = panel.counts ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
    for (const line of panel.lines) {
      const { color } = this.data.styles[line.key], show = this.shown[line.key];
      const plain = crowd && !crowd.named.includes(line.key);
      series.push({ stroke: plain ? css("--faint") : line.shared ? "transparent" : color, show, width: plain ? 0.8 : WIDTH,
                    dash: plain ? [] : this.dash(line.key, 2), points: { show: line.x.length === 1 }, ...outline },
                  { show, points, ...outline }, { show, points, ...outline });
      if (panel.lines.length <= MOST_BANDS) {
        bands.push({ series: [series.length - 1, series.length - 2], fill: shade(color, 0.18) });
      }
    }
    if (crowd?.value) {
      series.push({ points }, { points }, { stroke: css("--ink"), width: 2.6, points });
      bands.push({ series: [series.length - 2, series.length - 3], fill: shade(css("--ink"), 0.15) });
    }
    return {
      width: Math.max(width, 120), height: HEIGHT, series, bands, legend: { show: false }, padding: [8, crowd ? this.margin(panel) : 8, 0, 0],
      scales: { x: { time: false, range: (_, low, high) => [low, high] },
                y: { range: (_, low, high) => {
                  [low, high] = this.data.facets ? this.extent() : [low, high];
                  return uPlot.rangeNum(panel.zero ? Math.min(0, low) : low, high, 0.08, true);
                } } },
      axes: [{ ...axis, size: 26 }, { ...axis, size: 54, values: (_, ticks) => ticks.map(formatted) }],
      cursor: { drag: { x: true, y: false, dist: 4 }, points: { show: false }, y: false,
                bind: { dblclick: () => () => this.reset() } },
      hooks: {
        setScale: [(plot, scale) => scale === "x" && this.follow(plot)],
        setCursor: [(plot) => this.hover(plot)],
        draw: [(plot) => this.parts(plot, panel), (plot) => this.cross(plot, panel), (plot) => this.names(plot, panel), (plot) => this.emphasize(plot, panel)],
      },
    };
  }

  /** The least and the greatest value of all panels, for those of one metric. */
  extent() {
    this.extremes ??= this.data.panels.flatMap(({ lines }) => lines)
      .flatMap(({ low, high }) => [...low, ...high]).filter((value) => value !== null)
      .reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, -Infinity]);
    return this.extremes;
  }

  /** Width of the longest name beside a panel, with the distance to it. */
  margin({ crowd, lines }) {
    const ctx = (this.ruler ??= document.createElement("canvas").getContext("2d"));
    ctx.font = FONT;
    const [first, last] = this.whole();
    const whole = lines.filter(({ key, x }) => crowd.named.includes(key) && x[x.length - 1] > last - 0.1 * (last - first));
    return 22 + Math.max(-14, ...whole.map(({ key }) => ctx.measureText(this.data.legend[key]).width));
  }

  /** Position of the last value of a curve that is in sight, in pixels of the canvas; null if there is none. */
  end(plot, line) {
    const { min, max } = plot.scales.x;
    const at = line.value.findLastIndex((value, index) => value !== null && line.x[index] <= max);
    if (at < 0 || line.x[at] < min) return null;
    return [plot.valToPos(line.x[at], "x", true), plot.valToPos(line.value[at], "y", true)];
  }

  /** Write the names of what stands out of many curves beside the panel, joined to their ends. */
  names(plot, { crowd, lines }) {
    if (!crowd) return;
    const { ctx, bbox } = plot, ratio = uPlot.pxRatio, apart = 14 * ratio;
    const ends = lines.filter(({ key }) => crowd.named.includes(key) && this.shown[key])
      .map((line) => [line.key, this.end(plot, line)]).filter(([, end]) => end)
      .map(([key, [x, y]]) => ({ key, x, y })).sort((a, b) => b.y - a.y);
    const right = bbox.left + bbox.width;
    for (const end of ends) end.inside = end.x < right - 0.1 * bbox.width;
    for (const some of [ends.filter(({ inside }) => inside), ends.filter(({ inside }) => !inside)]) {
      let limit = bbox.top + bbox.height - apart / 2;
      for (const end of some) limit = (end.at = Math.min(end.y, limit)) - apart;
      limit = bbox.top;
      for (const end of some.reverse()) limit = (end.at = Math.max(end.at, limit)) + apart;
    }
    ctx.save();
    ctx.font = FONT.replace("12px", `${12 * ratio}px`);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.lineWidth = ratio;
    for (const { key, x, y, at, inside } of ends) {
      const name = this.data.legend[key], { width } = ctx.measureText(name);
      let left = (inside ? x : right) + 12 * ratio, joint = left - 3 * ratio;
      if (left + width > ctx.canvas.width) [left, joint] = [x - width - 12 * ratio, x - 9 * ratio];
      if (inside) {
        ctx.fillStyle = shade(css("--ground"), 0.75);
        ctx.fillRect(left - ratio, at - apart / 2, width + 2 * ratio, apart);
      }
      ctx.fillStyle = css("--ink");
      ctx.strokeStyle = this.data.styles[key].color;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(joint, at);
      ctx.stroke();
      ctx.fillText(name, left, at);
    }
    ctx.restore();
  }

  path(plot, line) {
    const path = new Path2D();
    let down = false;
    line.value.forEach((value, index) => {
      if (value === null) down = false;
      else {
        path[down ? "lineTo" : "moveTo"](plot.valToPos(line.x[index], "x", true), plot.valToPos(value, "y", true));
        down = true;
      }
    });
    return path;
  }

  /** Draw curves whose runs shared their GPU, thin for that time. */
  parts(plot, { lines, crowd }) {
    const { ctx, bbox } = plot, ratio = uPlot.pxRatio;
    for (const line of lines) {
      if (!line.shared || !this.shown[line.key] || (crowd && !crowd.named.includes(line.key))) continue;
      const path = this.path(plot, line), position = (x) => plot.valToPos(x, "x", true);
      const edges = [bbox.left, ...line.shared.flat().map(position), bbox.left + bbox.width];
      // Alone before the first edge, shared until the next, and so on.
      edges.slice(1).forEach((end, at) => {
        const [from, to] = [Math.max(bbox.left, edges[at]), Math.min(bbox.left + bbox.width, end)];
        if (to <= from) return;
        const width = at % 2 ? THIN : WIDTH;
        ctx.save();
        ctx.beginPath();
        ctx.rect(from, bbox.top, to - from, bbox.height);
        ctx.clip();
        ctx.lineJoin = "round";
        ctx.strokeStyle = this.data.styles[line.key].color;
        ctx.lineWidth = width * ratio;
        ctx.setLineDash(this.dash(line.key, 2 * ratio));
        ctx.stroke(path);
        ctx.restore();
      });
    }
  }

  /** Draw the curve that the user points at above all others, with its name. */
  emphasize(plot, panel) {
    const line = panel.lines.find(({ key }) => key === this.focused && this.shown[key]);
    if (!line) return;
    const { ctx, bbox } = plot, ratio = uPlot.pxRatio, { color } = this.data.styles[line.key];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineJoin = "round";
    const path = this.path(plot, line);
    for (const [style, width] of [[css("--ground"), 5], [color, 2.6]]) {
      ctx.strokeStyle = style;
      ctx.lineWidth = width * ratio;
      ctx.setLineDash(width > 3 ? [] : this.dash(line.key, 2.6).map((part) => part * ratio));
      ctx.stroke(path);
    }
    const index = this.at === null ? -1 : nearest(line, this.at);
    const point = index < 0 ? this.end(plot, line)
      : [plot.valToPos(line.x[index], "x", true), plot.valToPos(line.value[index], "y", true)];
    if (point) this.label(plot, this.data.legend[line.key], ...point);
    ctx.restore();
  }

  /** Write a name above a point, on the ground's color. */
  label(plot, name, x, y) {
    const { ctx, bbox } = plot, ratio = uPlot.pxRatio;
    ctx.setLineDash([]);
    ctx.font = FONT.replace("12px", `600 ${12 * ratio}px`);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const width = ctx.measureText(name).width;
    const left = Math.max(bbox.left, Math.min(x - width / 2, bbox.left + bbox.width - width - 6 * ratio));
    const above = y - 14 * ratio < bbox.top + 8 * ratio ? y + 14 * ratio : y - 14 * ratio;
    ctx.fillStyle = shade(css("--ground"), 0.85);
    ctx.fillRect(left - 4 * ratio, above - 8 * ratio, width + 8 * ratio, 16 * ratio);
    ctx.fillStyle = css("--ink");
    ctx.fillText(name, left, above);
  }

  /** Emphasize a curve in all panels and its row, or none. */
  focus(key) {
    if (key === this.focused) return;
    this.focused = key;
    this.rows.forEach((row, at) => row.classList.toggle("focused", at === key));
    this.plots.forEach((plot) => plot.redraw(false, false));
  }

  /**
   * Sort the legend by the values of a column: descending, ascending, in the order of the runs. Values of shared GPUs are not the
   * runs' own, and come after those that are.
   */
  sort(column) {
    const { sorted } = this;
    if (sorted?.column !== column) this.sorted = { column, sign: -1 };
    else this.sorted = sorted.sign < 0 ? { column, sign: 1 } : null;
    this.order();
  }

  order() {
    const { sorted, rows } = this, body = this.root.querySelector("tbody");
    const keys = [...rows.keys()];
    if (sorted) {
      const known = (key) => this.values[sorted.column][key] ?? NaN;
      keys.sort((a, b) => {
        const [one, other] = [known(a), known(b)];
        if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other) || a - b;
        const foreign = this.foreign[sorted.column];
        if (Boolean(foreign[a]) !== Boolean(foreign[b])) return foreign[a] ? 1 : -1;
        return sorted.sign * (one - other) || a - b;
      });
    }
    this.root.querySelectorAll("thead th + th").forEach((head, column) => {
      const sign = sorted?.column === column ? sorted.sign : 0;
      if (sign) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (keys.some((key, at) => body.rows[at] !== rows[key])) body.append(...keys.map((key) => rows[key]));
  }

  /** Mark the ends of curves whose runs ended early. */
  cross(plot, panel) {
    const { ctx, bbox } = plot, arm = 4 * devicePixelRatio;
    ctx.lineWidth = 1.6 * devicePixelRatio;
    for (const line of panel.lines.filter(({ key, ended_early }) => ended_early && this.shown[key])) {
      const end = line.value.findLastIndex((value) => value !== null);
      const x = plot.valToPos(line.x[end], "x", true), y = plot.valToPos(line.value[end], "y", true);
      if (x > bbox.left + bbox.width) continue;
      const plain = panel.crowd && !panel.crowd.named.includes(line.key);
      ctx.strokeStyle = plain ? css("--faint") : this.data.styles[line.key].color;
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
    return [x.begins, Math.max(x.begins, ...xs.flatMap((one) => one.slice(-1)))];
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
    this.rows[key].classList.toggle("off", !on);
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
    const { left, top, idx } = plot.cursor, inside = left >= 0 && idx !== null;
    this.point(inside ? plot.data[0][idx] : null);
    // The pointer takes back only what it has emphasized itself, not what is chosen in the legend or by keyboard.
    if (inside) this.focus(this.nearest(plot, plot.data[0][idx], top));
    else if (this.pointed) this.focus(null);
    this.pointed = inside;
  }

  /** Key of the curve that is nearest to a height in pixels; null if none is near. */
  nearest(plot, x, top) {
    let [found, least] = [null, NEAR];
    for (const line of this.data.panels[this.plots.indexOf(plot)].lines) {
      const index = this.shown[line.key] ? nearest(line, x) : -1;
      const distance = index < 0 ? Infinity : Math.abs(plot.valToPos(line.value[index], "y") - top);
      if (distance < least) [found, least] = [line.key, distance];
    }
    return found;
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
                      "0": () => this.reset(), Escape: () => (this.point(null), this.focus(null), this.reset()),
                      ArrowUp: () => this.step(-1), ArrowDown: () => this.step(1) };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      const [min, max] = this.range(), step = ((max - min) / 100) * moves[event.key] * (event.shiftKey ? 10 : 1);
      this.point(Math.min(max, Math.max(min, (this.at ?? (step > 0 ? min : max)) + step)));
    } else if (event.key in actions) actions[event.key]();
    else return;
    event.preventDefault();
  }

  /** Emphasize the next curve of the legend that is shown. */
  step(by) {
    const shown = this.rows.map((_, key) => key).filter((key) => this.shown[key]);
    const at = shown.indexOf(this.focused);
    this.focus(shown[at < 0 ? (by > 0 ? 0 : shown.length - 1) : (at + by + shown.length) % shown.length] ?? null);
  }

  /** Writes into the legend what the curves have where the cursor is, or over all that is visible. */
  fill() {
    const { root, data, at } = this;
    const where = root.querySelector(".where");
    where.textContent = at === null ? "" : `at ${formatted(at)} ${data.x.unit}`.trim();
    const { rows } = this;
    root.querySelectorAll("thead .what").forEach((what, column) => {
      what.textContent = at !== null ? "" : data.panels[column].counts ? "sum" : data.panels[column].measured ? "mean" : "last";
      rows.forEach((row) => (row.cells[column + 1].textContent = ""));
      if (at === null) [this.values[column], this.foreign[column]] = [[], []];
    });
    data.panels.forEach((panel, number) => {
      const column = data.facets ? 0 : number;
      for (const line of panel.lines) {
        const value = at === null ? this.visible(panel, line) : null;
        if (value !== null) this.values[column][line.key] = value;
        if (at === null) this.foreign[column][line.key] = this.isShared(line);
        rows[line.key].cells[column + 1].textContent = at === null ? this.worded(line, value) : near(line, panel.counts ? at - (line.x[1] - line.x[0]) / 2 : at);
      }
    });
    if (at === null) this.order();
  }

  visible(panel, line) {
    const [min, max] = this.range();
    const inside = [...line.x.keys()].filter((at) => line.x[at] >= min && line.x[at] <= max);
    const seen = inside.filter((at) => line.value[at] !== null);
    if (!inside.length) return null;
    if (panel.counts) return seen.reduce((sum, at) => sum + line.value[at], 0);
    if (panel.measured) return seen.length ? mean(line, seen) : null;
    // A value that was NaN or infinite is no point; those of a long curve are means.
    const end = inside[inside.length - 1];
    const last = end === line.x.length - 1 && line.last !== undefined ? line.last : line.value[end];
    return last ?? NaN;
  }

  /** Return whether a curve is that of a whole GPU, which other runs used, in a part of what is visible. */
  isShared(line) {
    const [min, max] = this.range();
    return (line.shared ?? []).some(([first, last]) => first < max && last > min);
  }

  worded(line, value) {
    return Number.isNaN(value) ? "NaN" : formatted(value) + (value !== null && this.isShared(line) ? "†" : "");
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
  const { value, low, high } = line, index = nearest(line, at);
  if (index < 0) return "";
  const [least, most] = [formatted(low[index]), formatted(high[index])];
  return formatted(value[index]) + (least === most ? "" : ` (${least} – ${most})`);
}

/** The index of a curve's point nearest to a position on the axis; -1 beyond the curve or where it has no value. */
function nearest({ x, value, reach }, at) {
  const last = x.length - 1;
  if (at < x[0] - reach || at > x[last] + reach) return -1;
  let next = x.findIndex((one) => one >= at);
  if (next < 0) next = last;
  const index = next > 0 && at - x[next - 1] < x[next] - at ? next - 1 : next;
  return value[index] === null ? -1 : index;
}

const charts = [...document.querySelectorAll("figure.chart")].map((root) => new Chart(root));
const again = () => charts.forEach((chart) => chart.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
matchMedia("print").addEventListener("change", again);
