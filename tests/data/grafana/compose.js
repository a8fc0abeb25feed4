// Composes the schema of each type of panel out of what was generated from dashboard.ts.

const { readFileSync } = require("fs");

// Grafana fills in the defaults of options, so nothing is required of them.
const optional = (node) => {
  if (Array.isArray(node)) return node.map(optional);
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(
    Object.entries(node).filter(([key]) => key !== "required").map(([key, value]) => [key, optional(value)]),
  );
};

// Units stand in code, not in types; beside Grafana's own there are `suffix:…` and its like.
const categories = readFileSync("node_modules/@grafana/data/dist/esm/valueFormats/categories.mjs", "utf8");
const units = [...categories.matchAll(/\bid: "([^"]+)"/g)].map((found) => found[1]);

const generated = JSON.parse(readFileSync("types.json")).definitions.Schema.properties;
const { dashboard, panel, row, field, matcher } = generated;
const options = optional(generated.options.properties);
const custom = optional(generated.custom.properties);
field.properties.unit = { anyOf: [{ enum: units.sort() }, { pattern: "^(suffix|prefix|time|si|count|currency|bool):" }] };

const closed = (properties, required = []) => ({ type: "object", properties, required, additionalProperties: false });
const refer = (path, properties, prefix = "") =>
  Object.fromEntries(Object.keys(properties).map((key) => [prefix + key, { $ref: `#/$defs/${path}/properties/${key}` }]));
const known = refer("field", field.properties);
const panels = { row };
for (const type of Object.keys(options)) {
  const own = custom[type] ?? closed({});
  const overridden = { ...known, ...refer(`custom/${type}`, own.properties, "custom.") };
  for (const [key, node] of Object.entries(own.properties))
    Object.assign(overridden, refer(`custom/${type}/properties/${key}`, node.properties ?? {}, `custom.${key}.`));
  const property = {
    ...closed({ id: { enum: Object.keys(overridden) }, value: true }, ["id"]),
    allOf: Object.entries(overridden).map(([id, value]) => ({
      if: { properties: { id: { const: id } } },
      then: { properties: { value } },
    })),
  };
  const override = { matcher: { $ref: "#/$defs/matcher" }, properties: { type: "array", items: property } };
  const overrides = { type: "array", items: closed(override, ["matcher", "properties"]) };
  const defaults = closed({ ...known, custom: { $ref: `#/$defs/custom/${type}` } });
  const fieldConfig = closed({ defaults, overrides }, ["defaults", "overrides"]);
  const properties = { ...refer("panel", panel.properties), type: { const: type }, options: options[type], fieldConfig };
  panels[type] = closed(properties, [...panel.required, "type"]);
  custom[type] = own;
}
// A line a definition, so that a difference says where it is.
const written = (node, depth) =>
  depth === 0
    ? JSON.stringify(node)
    : `{\n${Object.entries(node).map(([key, value]) => `${JSON.stringify(key)}: ${written(value, depth - 1)}`).join(",\n")}\n}`;
console.log(written({ $defs: { dashboard, panel, field, matcher, panels, custom } }, 3));
