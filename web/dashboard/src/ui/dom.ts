// Creates elements. Everything becomes text or an attribute: no string is ever parsed as HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Props = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props?: Props | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value as (event: Event) => void);
    } else if (name === "value") {
      (element as HTMLInputElement).value = String(value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  put(element, ...children);
  return element;
}

/** Append children to an element. */
export function put(parent: Element, ...children: Child[]): void {
  for (const child of children.flat(9) as Exclude<Child, Child[]>[]) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Replace all children of an element. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  put(parent, ...children);
}

/** A part of a page that is redrawn only when its data has changed, or something else has replaced it. */
export function part<T>(element: HTMLElement, draw: (value: T) => Child): (value: T) => void {
  let last = "";
  let drawn: ChildNode | null = null;
  return (value) => {
    const now = JSON.stringify(value);
    if (now !== last || element.firstChild !== drawn) {
      last = now;
      // Keep the keyboard focus on the same button.
      const path = focusPath(element);
      fill(element, draw(value));
      drawn = element.firstChild;
      focusAt(element, path);
    }
  };
}

function focusPath(root: Element): string | null {
  const active = document.activeElement;
  return active !== null && root.contains(active) ? active.getAttribute("data-key") : null;
}

function focusAt(root: Element, key: string | null): void {
  if (key !== null) {
    root.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

/** Call repeatedly until stopped, never two at a time; a hidden page is not refreshed. */
export function every(seconds: number, work: () => Promise<void>): () => void {
  let timer = 0;
  let stopped = false;
  const turn = async (): Promise<void> => {
    if (!document.hidden) {
      await work();
    }
    if (!stopped) {
      timer = window.setTimeout(turn, seconds * 1000);
    }
  };
  void turn();
  return () => {
    stopped = true;
    window.clearTimeout(timer);
  };
}
