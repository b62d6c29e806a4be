// Which page an address means.

export interface Place<T> {
  name: string;
  parameter: string;
  /** Undefined if no page has this address. */
  page: T | undefined;
}

export function placeOf<T>(hash: string, pages: Record<string, T>): Place<T> {
  const [name = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  try {
    const parameter = decodeURIComponent(rest.join("/"));
    return { name, parameter, page: Object.hasOwn(pages, name) ? pages[name] : undefined };
  } catch {
    // Typed by hand: a percent sign with nothing behind it.
    return { name, parameter: "", page: undefined };
  }
}
