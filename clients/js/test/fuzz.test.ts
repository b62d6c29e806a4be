/** Whatever a server says, it is understood or it is a `ProtocolError`: nothing else, and nothing for ever. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CODECS } from "../src/codec.js";
import { ProtocolError } from "../src/errors.js";
import { LIMITS } from "../src/limits.js";
import { ClientProtocol } from "../src/protocol.js";

const ROUNDS = 3000;
const frames: { json: string; msgpack: string }[] = JSON.parse(
  readFileSync(new URL("../../../spec/vectors/frames.json", import.meta.url), "utf8"),
);

/** The same numbers for the same seed (mulberry32). */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

test.each(["holdfast.v1.msgpack", "holdfast.v1.json"])("%s", (codec) => {
  const isJson = codec.endsWith("json");
  const known = frames.map(({ json, msgpack }) =>
    Buffer.from(isJson ? `[${json}]` : `91${msgpack}`, isJson ? "utf8" : "hex"),
  );
  const told = { understood: 0, refused: 0 };

  for (let seed = 0; seed < ROUNDS; seed++) {
    const random = randomOf(seed);
    // biome-ignore lint/style/noNonNullAssertion: the codecs are these two
    const protocol = new ClientProtocol(CODECS[codec]!, {}, LIMITS);
    try {
      for (let i = 0; i < 6; i++) {
        const payload = Uint8Array.from(known[random(known.length)] as Buffer);
        for (let change = random(4); change > 0; change--) payload[random(payload.length)] = random(256);
        for (const event of protocol.receive(payload)) if (event.is === "arrived") protocol.processed(event);
        protocol.outgoing(true, true);
        told.understood += 1;
      }
    } catch (error) {
      expect(error, `seed ${seed}`).toBeInstanceOf(ProtocolError);
      told.refused += 1;
    }
  }

  expect(told.understood).toBeGreaterThan(100);
  expect(told.refused).toBeGreaterThan(100);
});
