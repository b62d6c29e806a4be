import { afterEach, expect, test, vi } from "vitest";
import { resolve } from "../src/ui/form";

// The page's modules look for its storage when they are loaded.
const storage = new Map<string, string>();
globalThis.sessionStorage ??= { getItem: (name: string) => storage.get(name) ?? null } as Storage;
const { Lines, live } = await import("../src/live");
const { path } = await import("../src/api");

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Streams that say nothing, and who has been told to stop. */
function silentStreams(): { begun: number; cancelled: number } {
  const told = { begun: 0, cancelled: 0 };
  const stream = () =>
    new ReadableStream<Uint8Array>({
      cancel: () => {
        told.cancelled += 1;
      },
    });
  vi.stubGlobal("location", { origin: "http://localhost" });
  vi.stubGlobal("fetch", async () => {
    told.begun += 1;
    return new Response(stream());
  });
  return told;
}

test("a stream that has gone silent is left, and begun again", async () => {
  vi.useFakeTimers();
  const told = silentStreams();
  const states: boolean[] = [];

  const stop = live("/v1/overview/live", { event: () => {}, state: (isUp) => states.push(isUp) });
  await vi.advanceTimersByTimeAsync(39_000);
  expect(states).toEqual([true]);
  await vi.advanceTimersByTimeAsync(6_000);

  expect(states).toEqual([true, false, true]);
  expect(told).toEqual({ begun: 2, cancelled: 1 });
  stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(told).toEqual({ begun: 2, cancelled: 2 });
});

test("why a stream is refused is told", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("location", { origin: "http://localhost" });
  let status = 429;
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ code: "no", detail: "too many read" }), { status }));
  const whys: (string | undefined)[] = [];
  const ends: string[] = [];

  live("/v1/overview/live", {
    event: () => {},
    state: (_, why) => whys.push(why?.message),
    over: (problem) => ends.push(problem.message),
  });
  await vi.advanceTimersByTimeAsync(100);
  status = 403;
  await vi.advanceTimersByTimeAsync(10_000);

  expect(whys).toEqual(["too many read"]);
  expect(ends).toEqual(["too many read"]);
});

test("events are found however the stream is cut", () => {
  const text = 'retry: 1000\n\nid: 1\ndata: {"a":1}\n\n: still here\n\nid: 2\ndata: {"b":"ü"}\n\n';
  const lines = new Lines();

  const found = [...text].flatMap((letter) => lines.add(letter));

  expect(found).toEqual(['{"a":1}', '{"b":"ü"}']);
});

test("ids are escaped in paths", () => {
  expect(path`/v1/rooms/${"a/b ?"}/seats/${"#1"}`).toBe("/v1/rooms/a%2Fb%20%3F/seats/%231");
});

test("an id that a URL would fold away is refused", () => {
  for (const id of ["", ".", ".."]) {
    expect(() => path`/v1/rooms/${"r"}/seats/${id}`).toThrow("this id cannot be part of a URL");
  }
  expect(path`/v1/rooms/${"..."}`).toBe("/v1/rooms/...");
});

test("references in a schema are followed", () => {
  const root = {
    $ref: "#/$defs/Move",
    $defs: { Move: { type: "object", properties: { x: { $ref: "#/$defs/X" } } }, X: { type: "number" } },
  };

  expect(resolve(root, root).properties).toEqual({ x: { $ref: "#/$defs/X" } });
  expect(resolve({ $ref: "#/$defs/X" }, root)).toEqual({ type: "number" });
});
