// A form for any message, from the JSON Schema of its body. Values without a form field are typed as JSON.

import type { Schema } from "../api";
import { h } from "./dom";

export class MessageForm {
  readonly element: HTMLElement;
  private readonly read: () => unknown;

  constructor(schema: Schema) {
    const made = inputFor(schema, schema, "body");
    this.element = made.element;
    this.read = made.read;
  }

  /** The body as filled in; throws a readable error if it is not valid JSON. */
  value(): Record<string, unknown> {
    return (this.read() ?? {}) as Record<string, unknown>;
  }
}

interface Input {
  element: HTMLElement;
  read: () => unknown;
}

/** A schema without its references. */
export function resolve(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.replace("#/$defs/", "");
  return name === undefined ? schema : resolve(root.$defs?.[name] ?? {}, root);
}

function inputFor(raw: Schema, root: Schema, name: string, depth = 0): Input {
  const schema = resolve(raw, root);
  const optional = schema.anyOf?.filter((each) => resolve(each, root).type !== "null");
  if (optional !== undefined && optional.length === 1 && schema.anyOf?.length === 2 && optional[0] !== undefined) {
    const inner = inputFor({ ...optional[0], default: schema.default }, root, name, depth);
    return orNull(inner, name, schema.default === null);
  }
  if (schema.enum !== undefined) {
    return choice(schema.enum, schema.default);
  }
  switch (schema.type) {
    case "object":
      return schema.properties !== undefined && depth < 4 ? fields(schema, root, depth) : json(schema, {});
    case "string":
      return text(schema, name);
    case "integer":
    case "number":
      return number(schema);
    case "boolean":
      return truth(schema);
    case "array":
      return json(schema, []);
    default:
      return json(schema, null);
  }
}

function fields(schema: Schema, root: Schema, depth: number): Input {
  const inputs = Object.entries(schema.properties ?? {}).map(([name, each]) => {
    const input = inputFor(each, root, name, depth + 1);
    const isGroup = input.element.tagName === "FIELDSET";
    const label = isGroup
      ? h("div", { class: "field" }, h("span", null, name), input.element)
      : h("label", { class: "field" }, h("span", null, name), input.element);
    return { name, label, read: input.read };
  });
  const element = h("fieldset", { class: "fields" }, ...inputs.map((each) => each.label));
  if (inputs.length === 0) {
    element.append(h("p", { class: "faint" }, "This message has no fields."));
  }
  const read = (): unknown =>
    Object.fromEntries(inputs.map((each) => [each.name, each.read()]).filter(([, value]) => value !== undefined));
  return { element, read };
}

function text(schema: Schema, name: string): Input {
  const input = h("input", { type: "text", name, value: textOf(schema.default), autocomplete: "off" });
  return { element: input, read: () => input.value };
}

function number(schema: Schema): Input {
  const step = schema.type === "integer" ? 1 : "any";
  const input = h("input", {
    type: "number",
    step,
    min: schema.minimum,
    max: schema.maximum,
    value: textOf(schema.default ?? 0),
  });
  return { element: input, read: () => (input.value === "" ? 0 : Number(input.value)) };
}

function truth(schema: Schema): Input {
  const input = h("input", { type: "checkbox", checked: schema.default === true });
  return { element: input, read: () => input.checked };
}

function choice(values: unknown[], chosen: unknown): Input {
  const input = h("select", null, ...values.map((each) => h("option", { selected: each === chosen }, textOf(each))));
  return { element: input, read: () => values[input.selectedIndex] };
}

function orNull(inner: Input, name: string, isNull: boolean): Input {
  // The label around both belongs to the checkbox.
  inner.element.setAttribute("aria-label", name);
  const none = h("input", { type: "checkbox", checked: !isNull, "aria-label": "give a value" });
  const show = (): void => {
    inner.element.hidden = !none.checked;
  };
  none.addEventListener("change", show);
  show();
  return {
    element: h("div", { class: "or-null" }, none, inner.element),
    read: () => (none.checked ? inner.read() : null),
  };
}

function json(schema: Schema, empty: unknown): Input {
  const input = h("textarea", { rows: 2, spellcheck: "false", class: "code" });
  input.value = JSON.stringify(schema.default ?? empty);
  return {
    element: input,
    read: () => {
      try {
        return JSON.parse(input.value) as unknown;
      } catch {
        throw new Error(`Invalid JSON: ${input.value.slice(0, 40)}`);
      }
    },
  };
}

function textOf(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
}
