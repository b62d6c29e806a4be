// A list of any length: only visible rows are in the document, and only nearby pages are loaded.

import { reasonOf } from "./dialog";
import { every, fill, h, put } from "./dom";

const ROW = 48;
/** Rows beyond the visible ones, so that keyboard navigation always finds a next one. */
const SPARE = 8;
const REFRESH_S = 2;
export const PAGE = 100;

export interface Page<T> {
  items: T[];
  cursor: string;
}

export interface ListOptions<T> {
  label: string;
  columns: string[];
  /** One page, after this cursor. */
  load: (cursor: string) => Promise<Page<T>>;
  id: (item: T) => string;
  link: (item: T) => string;
  cells: (item: T) => HTMLElement[];
  /** The class of its columns, if their number does not say it. */
  layout?: string;
  /** The text of an empty list. */
  empty: () => Node;
}

export class List<T> {
  readonly element: HTMLElement;
  private readonly viewport: HTMLElement;
  private readonly canvas: HTMLElement;
  private readonly note: HTMLElement;
  private readonly rows = new Map<string, { row: HTMLAnchorElement; drawn: string }>();
  private pages: (Page<T> & { before: string })[] = [];
  private items: T[] = [];
  private isLoading = false;
  private generation = 0;
  private readonly stop: () => void;
  private readonly resized: ResizeObserver;

  constructor(private readonly options: ListOptions<T>) {
    this.canvas = h("div", { class: "list-canvas" });
    this.viewport = h(
      "div",
      { class: "list-view", tabindex: 0, role: "region", "aria-label": options.label, onscroll: () => this.moved() },
      this.canvas,
    );
    this.note = h("div", { class: "list-note", role: "status" });
    const head = h("div", { class: "list-head", "aria-hidden": "true" });
    put(head, ...options.columns.map((name) => h("span", null, name)));
    this.element = h(
      "div",
      { class: `list columns-${options.layout ?? options.columns.length}` },
      head,
      this.viewport,
      this.note,
    );
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.viewport);
    this.stop = every(REFRESH_S, () => this.refresh());
  }

  /** Start again, with a different query. */
  reset(): void {
    this.generation += 1;
    this.pages = [];
    this.items = [];
    this.isLoading = false;
    this.viewport.scrollTop = 0;
    this.draw();
    void this.refresh();
  }

  close(): void {
    this.generation += 1;
    this.resized.disconnect();
    this.stop();
  }

  private moved(): void {
    this.draw();
    void this.more();
  }

  /** Reload the visible rows. */
  private async refresh(): Promise<void> {
    const generation = this.generation;
    if (this.pages.length === 0) {
      await this.more();
      return;
    }
    const [first, last] = this.visible();
    let at = 0;
    for (const [index, page] of this.pages.entries()) {
      const end = at + page.items.length;
      if (end >= first && at <= last) {
        const fresh = await this.ask(page.before);
        if (generation !== this.generation || fresh === null) {
          return;
        }
        this.pages[index] = { ...fresh, before: page.before };
        const next = this.pages[index + 1];
        if (next !== undefined) {
          if (fresh.cursor === "") {
            this.pages.length = index + 1;
          } else {
            next.before = fresh.cursor;
          }
        }
      }
      at = end;
    }
    this.gather();
    await this.more();
  }

  /** Load further pages until there is enough below the visible rows. */
  private async more(): Promise<void> {
    const generation = this.generation;
    if (this.isLoading) {
      return;
    }
    this.isLoading = true;
    while (this.pages.at(-1)?.cursor !== "" && this.visible()[1] + PAGE / 2 > this.items.length) {
      const before = this.pages.at(-1)?.cursor ?? "";
      const page = await this.ask(before);
      if (generation !== this.generation) {
        return;
      }
      if (page === null) {
        break;
      }
      this.pages.push({ ...page, before });
      this.gather();
    }
    this.isLoading = false;
  }

  private async ask(cursor: string): Promise<Page<T> | null> {
    const generation = this.generation;
    try {
      const page = await this.options.load(cursor);
      return page;
    } catch (error) {
      if (generation === this.generation) {
        fill(this.note, h("p", { class: "problem" }, reasonOf(error)));
      }
      return null;
    }
  }

  private gather(): void {
    const known = new Map<string, T>();
    for (const page of this.pages) {
      for (const item of page.items) {
        known.set(this.options.id(item), item);
      }
    }
    this.items = [...known.values()];
    fill(this.note, this.items.length === 0 && this.options.empty());
    this.draw();
  }

  private visible(): [number, number] {
    const first = Math.floor(this.viewport.scrollTop / ROW);
    return [first, first + Math.ceil(this.viewport.clientHeight / ROW)];
  }

  private draw(): void {
    const [first, last] = this.visible();
    const from = Math.max(0, first - SPARE);
    const shown = this.items.slice(from, last + SPARE);
    this.canvas.style.height = `${this.items.length * ROW}px`;
    this.viewport.style.setProperty("--content", `${this.items.length * ROW}px`);
    this.viewport.hidden = this.items.length === 0;
    const kept = new Set<string>();
    for (const [index, item] of shown.entries()) {
      const id = this.options.id(item);
      kept.add(id);
      this.row(id, item).style.transform = `translateY(${(from + index) * ROW}px)`;
    }
    for (const [id, { row }] of this.rows) {
      if (!kept.has(id)) {
        row.remove();
        this.rows.delete(id);
      }
    }
    // Document order is visual order, for keyboard navigation and screen readers.
    let previous: Element | null = null;
    for (const item of shown) {
      const row = this.rows.get(this.options.id(item))?.row;
      if (row !== undefined && row.previousElementSibling !== previous) {
        this.canvas.insertBefore(row, previous === null ? this.canvas.firstChild : previous.nextSibling);
      }
      previous = row ?? previous;
    }
  }

  private row(id: string, item: T): HTMLAnchorElement {
    let known = this.rows.get(id);
    if (known === undefined) {
      known = { row: h("a", { class: "row", href: this.options.link(item) }), drawn: "" };
      this.rows.set(id, known);
      this.canvas.append(known.row);
    }
    const now = JSON.stringify(item);
    if (known.drawn !== now) {
      known.drawn = now;
      fill(known.row, ...this.options.cells(item));
    }
    return known.row;
  }
}
