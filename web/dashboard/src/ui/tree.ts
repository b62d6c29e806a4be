// Any JSON as a tree that keeps its open nodes while its values change.

import { h } from "./dom";
import { counted } from "./format";

const SHOWN_MAX = 200;
const MEANING: Record<string, string> = {
  private: "Of the clients, only this player's sees it.",
  hidden: "No client sees it.",
};

type Path = readonly string[];
/** A word beside a value, by the keys that lead to it; empty: none. */
type Mark = (path: Path) => string;

export class Tree {
  readonly element = h("div", { class: "tree" });
  private root: Branch | null = null;

  show(value: unknown, mark: Mark = () => ""): void {
    if (this.root === null) {
      this.root = new Branch([], value, mark);
      this.element.replaceChildren(this.root.element);
    } else {
      this.root.show(value);
    }
  }
}

/** One value and its children. */
class Branch {
  readonly element: HTMLElement;
  private readonly text = h("span", { class: "value" });
  private readonly inside = h("div", { class: "tree-inside" });
  private readonly details: HTMLDetailsElement;
  private readonly leaf: HTMLElement;
  private branches = new Map<string, Branch>();
  private last: unknown;
  private drawn = "";

  constructor(
    private readonly path: Path,
    value: unknown,
    private readonly mark: Mark,
  ) {
    const name = path.at(-1) ?? "";
    const word = mark(path);
    const badge = () => word !== "" && h("span", { class: "badge warn", title: MEANING[word] }, word);
    const label = () => (name === "" ? null : [h("span", { class: "key" }, name), badge()]);
    this.details = h("details", null, h("summary", null, label(), this.text), this.inside);
    this.details.open = path.length < 2;
    this.details.addEventListener("toggle", () => this.fill());
    this.leaf = h("div", { class: "leaf" }, label());
    this.element = h("div");
    this.show(value);
  }

  show(value: unknown): void {
    this.last = value;
    const isNode = typeof value === "object" && value !== null;
    const holder = isNode ? this.details : this.leaf;
    if (holder.parentElement !== this.element) {
      this.element.replaceChildren(holder);
      (isNode ? this.details.querySelector("summary") : this.leaf)?.append(this.text);
    }
    const [text, kind] = describe(value);
    if (this.drawn !== "" && this.drawn !== text) {
      flash(this.text);
    }
    if (this.drawn !== text) {
      this.text.textContent = text;
      this.text.className = `value ${kind}`;
      this.drawn = text;
    }
    this.fill();
  }

  private fill(): void {
    if (typeof this.last !== "object" || this.last === null || !this.details.open) {
      return;
    }
    const entries = Object.entries(this.last).slice(0, SHOWN_MAX);
    const names = new Set(entries.map(([name]) => name));
    for (const [name, branch] of this.branches) {
      if (!names.has(name)) {
        branch.element.remove();
        this.branches.delete(name);
      }
    }
    for (const [name, value] of entries) {
      const known = this.branches.get(name);
      if (known !== undefined) {
        known.show(value);
      } else {
        const branch = new Branch([...this.path, name], value, this.mark);
        this.branches.set(name, branch);
        this.inside.append(branch.element);
      }
    }
    const more = Object.keys(this.last).length - entries.length;
    this.inside.querySelector(":scope > .more")?.remove();
    if (more > 0) {
      this.inside.append(h("div", { class: "more" }, `… ${more} more`));
    }
  }
}

function describe(value: unknown): [string, string] {
  if (Array.isArray(value)) {
    return [counted(value.length, "item"), "size"];
  }
  if (typeof value === "object" && value !== null) {
    return [counted(Object.keys(value).length, "field"), "size"];
  }
  return [JSON.stringify(value) ?? "undefined", value === null ? "null" : typeof value];
}

function flash(element: HTMLElement): void {
  element.getAnimations().forEach((each) => {
    each.cancel();
  });
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
    element.animate([{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }], 700);
  }
}
