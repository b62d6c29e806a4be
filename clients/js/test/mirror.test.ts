/** The mirror of shared state, on the vectors that every SDK replays; in place, and with structural sharing. */

import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { ProtocolError } from "../src/errors.js";
import { apply, type Changed, Mirror, OutOfSync } from "../src/mirror.js";
import { decode } from "../src/msgpack.js";

const VECTORS = new URL("../../../spec/vectors/state/", import.meta.url);
// biome-ignore lint/suspicious/noExplicitAny: cases of several forms
const vectors = (name: string): any[] => JSON.parse(readFileSync(new URL(`${name}.json`, VECTORS), "utf-8"));
const copied = (value: unknown) => JSON.parse(JSON.stringify(value));
const ERRORS: Record<string, new (message: string) => Error> = { node: ProtocolError, out_of_sync: OutOfSync };

test.each(vectors("nodes"))("$name", ({ before, json, msgpack, after, paths }) => {
  for (const node of [JSON.parse(json), decode(Uint8Array.from(Buffer.from(msgpack, "hex")))]) {
    for (const immutable of [false, true]) {
      const data = copied(before);
      const changed: Changed[] = [];

      const made = apply(data, node, changed, immutable);

      // As text: `toEqual` does not see a key named __proto__.
      expect(sorted(made)).toBe(sorted(after));
      expect(changed.map(({ path }) => path)).toEqual(paths);
      expect(sorted(data)).toBe(sorted(immutable ? before : after));
    }
  }
  expect(Object.hasOwn(Object.prototype, "x")).toBe(false);
});

/** Data as text, whatever the order of its keys. */
function sorted(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sorted)}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const is = value as Record<string, unknown>;
  return `{${Object.keys(is)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${sorted(is[key])}`)}}`;
}

test.each(vectors("refused"))("$name is refused", ({ before, node, error }) => {
  expect(() => apply(copied(before), node)).toThrow(ERRORS[error]);
  expect(() => apply(copied(before), node, [], true)).toThrow(ERRORS[error]);
});

test.each(vectors("mirrors").flatMap((script) => [false, true].map((immutable) => ({ ...script, immutable }))))(
  "$name (immutable: $immutable)",
  ({ listen, steps, immutable }) => {
    const mirror = new Mirror({ immutable });
    let told: Record<string, unknown[][]> = {};
    const hear =
      (name: string) =>
      (...heard: unknown[]) => {
        told[name] = [...(told[name] ?? []), heard.map((each) => (each === undefined ? null : each))];
      };
    for (const [name, path] of Object.entries<string>(listen))
      if (path) mirror.onChange(path, hear(name));
      else mirror.onChange(hear(name));
    const inOrder = (calls: Record<string, unknown[][]>) =>
      Object.fromEntries(Object.entries(calls).map(([name, each]) => [name, each.map(sorted).sort()]));

    for (const { body, root, told: wanted, error } of steps) {
      told = {};
      if (error) {
        expect(() => mirror.receive(copied(body))).toThrow(ERRORS[error]);
        continue;
      }
      mirror.receive(copied(body));

      expect(mirror.root).toEqual(root);
      expect(mirror.isComplete).toBe(!(body[0] & 1));
      expect(inOrder(told)).toEqual(inOrder(wanted));
    }
  },
);

test("an immutable mirror shares what has not changed, and leaves what was read before as it was", () => {
  const mirror = new Mirror({ immutable: true });
  mirror.receive([2, [["state", { cards: [{ rank: 1 }, { rank: 2 }], seats: { a: 1 } }]]]);
  const before = mirror.root.state as { cards: object[]; seats: object };

  mirror.receive([0, [[], ["state", [[], ["cards", [[], [0, [["rank", 9]]]]]]]]]);
  const after = mirror.root.state as { cards: object[]; seats: object };

  expect(before).toEqual({ cards: [{ rank: 1 }, { rank: 2 }], seats: { a: 1 } });
  expect(after).toEqual({ cards: [{ rank: 9 }, { rank: 2 }], seats: { a: 1 } });
  expect(after).not.toBe(before);
  expect(after.seats).toBe(before.seats);
  expect(after.cards[1]).toBe(before.cards[1]);
});

test("a mirror changes in place unless it is told not to", () => {
  const mirror = new Mirror();
  mirror.receive([2, [["state", { cards: [1] }]]]);
  const { state } = mirror.root;

  mirror.receive([0, [[], ["state", [[], ["cards", [[], [], [], [1, 0, [2]]]]]]]]);

  expect(mirror.root.state).toBe(state);
  expect(state).toEqual({ cards: [1, 2] });
});

test("a listener that throws does not affect the others, and one that was taken away hears nothing", () => {
  const complaint = vi.spyOn(console, "error").mockImplementation(() => {});
  const mirror = new Mirror();
  const heard: unknown[] = [];
  mirror.onChange("a", () => {
    throw new Error("mine");
  });
  mirror.onChange("a", (value) => heard.push(value));
  const off = mirror.onChange("a", (value) => heard.push([value]));

  mirror.receive([2, [["a", 1]]]);
  off();
  mirror.receive([0, [["a", 2]]]);

  expect(heard).toEqual([1, [1], 2]);
  expect(complaint).toHaveBeenCalledTimes(2);
  complaint.mockRestore();
});

test("a list of a hundred thousand is no problem", () => {
  const many = Array.from({ length: 100_000 }, (_, i) => i);
  const list: number[] = [];

  apply(list, [[], [], [], [0, 0, many]]);
  apply(list, [[], [], [], [0, 1, many]]);

  expect(list.length).toBe(199_999);
});
