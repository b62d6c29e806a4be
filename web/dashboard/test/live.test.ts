import { expect, test } from "vitest";
import { resolve } from "../src/ui/form";

// The page's modules look for its storage when they are loaded.
const storage = new Map<string, string>();
globalThis.sessionStorage ??= { getItem: (name: string) => storage.get(name) ?? null } as Storage;
const { Lines } = await import("../src/live");
const { path } = await import("../src/api");

test("events are found however the stream is cut", () => {
  const text = 'retry: 1000\n\nid: 1\ndata: {"a":1}\n\n: still here\n\nid: 2\ndata: {"b":"ü"}\n\n';
  const lines = new Lines();

  const found = [...text].flatMap((letter) => lines.add(letter));

  expect(found).toEqual(['{"a":1}', '{"b":"ü"}']);
});

test("ids are escaped in paths", () => {
  expect(path`/v1/rooms/${"a/b ?"}/seats/${"#1"}`).toBe("/v1/rooms/a%2Fb%20%3F/seats/%231");
});

test("references in a schema are followed", () => {
  const root = {
    $ref: "#/$defs/Move",
    $defs: { Move: { type: "object", properties: { x: { $ref: "#/$defs/X" } } }, X: { type: "number" } },
  };

  expect(resolve(root, root).properties).toEqual({ x: { $ref: "#/$defs/X" } });
  expect(resolve({ $ref: "#/$defs/X" }, root)).toEqual({ type: "number" });
});
