// Parses the page's path from the URL.

export interface Place<T> {
  name: string;
  parameter: string;
  /** Undefined if there is no such page. */
  page: T | undefined;
}

export function placeOf<T>(hash: string, pages: Record<string, T>): Place<T> {
  const [name = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  try {
    const parameter = decodeURIComponent(rest.join("/"));
    return { name, parameter, page: Object.hasOwn(pages, name) ? pages[name] : undefined };
  } catch {
    // Typed by hand: an incomplete percent escape.
    return { name, parameter: "", page: undefined };
  }
}
