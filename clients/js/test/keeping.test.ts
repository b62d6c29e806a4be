/** What is kept, what is refused, and what is left to others. */

import { expect, test } from "vitest";
import { CODECS } from "../src/codec.js";
import { SessionSaver } from "../src/storage.js";
import { FakeStorage } from "./fake_server.js";

test("a session that ends forgets what it kept, and not what another session of the page keeps there", () => {
  const storage = new FakeStorage();
  const first = new SessionSaver(storage, "key", "tab 1");
  const second = new SessionSaver(storage, "key", "tab 2");
  first.keep(() => "first");
  second.keep(() => "second");

  first.forget();
  expect(second.found()).toEqual({ tab: "tab 2", state: "second" });

  second.forget();
  expect(second.found()).toBeNull();
});

test.each([new Map([[1, 2]]), new Uint8Array(3), new Date(0), new Set([1]), () => 1])(
  "the JSON codec refuses what JSON would make something else of: %s",
  (value) => {
    const codec = CODECS["holdfast.v1.json"];

    expect(() => codec?.encode({ value })).toThrow();
    expect(() => codec?.encode({ value: [1, "a", true, null, { b: 2.5 }] })).not.toThrow();
  },
);
