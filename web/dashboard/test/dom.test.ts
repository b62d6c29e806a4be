import { beforeEach, expect, test, vi } from "vitest";
import { fill, part } from "../src/ui/dom";

/** As much of an element as a part needs. */
class Place {
  children: unknown[] = [];
  get firstChild(): unknown {
    return this.children[0] ?? null;
  }
  replaceChildren(): void {
    this.children = [];
  }
  append(child: unknown): void {
    this.children.push(child);
  }
}
class Piece {
  constructor(readonly text: string) {}
}

beforeEach(() => {
  vi.stubGlobal("Node", Piece);
  vi.stubGlobal("document", { activeElement: null });
  return () => vi.unstubAllGlobals();
});

test("a part is drawn again when its value changes, or when an error stood in its place", () => {
  const place = new Place() as unknown as HTMLElement;
  const draw = vi.fn((text: string) => new Piece(text) as unknown as Node);
  const show = part(place, draw);

  show("a");
  show("a");
  expect(draw).toHaveBeenCalledTimes(1);
  fill(place, new Piece("it broke") as unknown as Node);
  show("a");
  show("b");

  expect(draw.mock.calls).toEqual([["a"], ["a"], ["b"]]);
});
