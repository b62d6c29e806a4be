/** Blocks are messages one after the other: the same claims as tests/client/test_protocol_messages.py. */

import { beforeEach, expect, test } from "vitest";
import { JSON_TEXT } from "../src/codec.js";
import { LIMITS } from "../src/limits.js";
import { ClientProtocol } from "../src/protocol.js";

const TERMS = {
  payload_bytes_max: 65_536,
  window_messages_max: 64,
  window_bytes_max: 65_536,
  requests_in_flight_max: 4,
  ping_s: 5,
  silence_s: 16,
  grace_s: 30,
};
let client: ClientProtocol;

const hear = (...frames: unknown[]) => [...client.receive(new TextEncoder().encode(JSON.stringify(frames)))];
const heard = (...frames: unknown[]) =>
  hear(...frames).map((event) => (event.is === "arrived" ? [event.seq, event.type, event.body] : event.is));
const block = (seq: number, ...bodies: string[]) => ["block", 1, seq, 0, bodies.map((body) => ["hit", body])];

beforeEach(() => {
  client = new ClientProtocol(JSON_TEXT, {}, LIMITS);
  hear(["welcome", "s1", "ada", "t1", { kind: "new" }, TERMS], ["seat", "joined", 1, 1, "room-1", "arena", "seat"]);
});

test("the hello says that blocks are read", () => {
  const [[, , , , , features]] = JSON.parse(new TextDecoder().decode(client.hello()));

  expect(features).toContain("blocks");
});

test("a block is its messages in their order", () => {
  expect(heard(block(1, "a", "b"), ["data", 1, 3, 0, "hit", "c"])).toEqual([
    [1, "hit", "a"],
    [2, "hit", "b"],
    [3, "hit", "c"],
  ]);
});

test("of a block that was heard in part the rest is new", () => {
  heard(block(1, "a", "b"));

  expect(heard(block(2, "b", "c"))).toEqual([[3, "hit", "c"]]);
});

test("a block after a gap breaks the sequence", () => {
  expect(() => heard(block(2, "b"))).toThrow("message 1 is missing");
});
