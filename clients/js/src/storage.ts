/** Where a page keeps its session, so that a refresh finds it again. */

/** As much of `sessionStorage` as is needed. It must be synchronous: what is written is there. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, text: string): void;
  removeItem(key: string): void;
}

/** The page's own storage; null where there is no page, as in Node and Deno, or the browser does not allow it. */
export function pageStorage(): SessionStorage | null {
  try {
    return typeof document === "undefined" ? null : globalThis.sessionStorage;
  } catch {
    return null;
  }
}

/** One session's place in a storage: the tab that it belongs to, and its saved state. */
export class Keeper {
  #storage: SessionStorage | null;
  readonly #key: string;
  #last = "";

  constructor(
    storage: SessionStorage | null,
    key: string,
    public tab: string,
  ) {
    this.#storage = storage;
    this.#key = key;
  }

  /** What the page before this one kept, if it did. */
  found(): { tab: string; state: string } | null {
    const [tab, state] = (this.#storage?.getItem(this.#key) ?? "").split("\n", 2);
    return tab && state ? { tab, state } : null;
  }

  keep(write: () => string): void {
    if (!this.#storage) return;
    const text = `${this.tab}\n${write()}`;
    if (text === this.#last) return;
    try {
      this.#storage.setItem(this.#key, text);
      this.#last = text;
    } catch (error) {
      // What is there is out of date, and its token used up: better none than that one.
      console.warn("holdfast: the session cannot be kept across a refresh:", error);
      this.forget();
      this.#storage = null;
    }
  }

  forget(): void {
    // Another session of this page may have taken the place.
    if (this.found()?.tab === this.tab) this.#storage?.removeItem(this.#key);
    this.#last = "";
  }
}
