/** The golden vectors: what every SDK must read, write and do (spec/vectors/README.md). */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { backoffS, FIRST_S, LONGEST_S } from "../src/backoff.js";
import { Channel } from "../src/channel.js";
import { CODECS, type Codec, JSON_TEXT, MSGPACK } from "../src/codec.js";
import { ProtocolError } from "../src/errors.js";
import type { FromClient } from "../src/frames.js";
import { LIMITS } from "../src/limits.js";
import { decode } from "../src/msgpack.js";
import { advice, CLOSE_CODES, isOurs } from "../src/reasons.js";

interface Case {
  name: string;
  direction: "client" | "server" | "both";
  dialect: string;
  frame: unknown[];
  frames: unknown[][];
  json: string;
  msgpack: string;
  hex: string;
}

// biome-ignore lint/suspicious/noExplicitAny: each file has a shape of its own
function vectors<T = any>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../../spec/vectors/${name}.json`, import.meta.url), "utf8"));
}

const bytesOf = (hex: string) => Uint8Array.from(Buffer.from(hex, "hex"));
const utf8 = (text: string) => new TextEncoder().encode(text);
const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

/** A payload without regard to direction: what our own frames decode to. */
function read(codec: Codec, payload: Uint8Array): unknown {
  return codec === MSGPACK ? decode(payload) : JSON.parse(new TextDecoder().decode(payload));
}

/** Defaults that a vector may leave out. */
function filledIn(frame: unknown[]): unknown[] {
  if (frame[0] !== "welcome") return frame;
  const [name, session, player, token, outcome, terms, channels, ...rest] = frame as [...unknown[]];
  const datagrams = rest.pop();
  return [
    name,
    session,
    player,
    token,
    { replayed: 0, reason: "", age_s: null, drop_reason: "", ...(outcome as object) },
    terms,
    (channels as object[]).map((info) => ({ accepted: 0, purpose: "seat", ...info })),
    ...rest,
    datagrams === null ? null : { host: "", ...(datagrams as object) },
  ];
}

/** Every frame and payload in both codecs; a lone frame is an array in an array. */
const WRITTEN = [
  ...vectors<Case>("frames").map((each) => ({
    ...each,
    frames: [each.frame],
    json: `[${each.json}]`,
    msgpack: `91${each.msgpack}`,
  })),
  ...vectors<Case>("payloads"),
].flatMap(({ name, direction, frames, json, msgpack }) => [
  { name, direction, frames, codec: JSON_TEXT, payload: utf8(json) },
  { name, direction, frames, codec: MSGPACK, payload: bytesOf(msgpack) },
]);

test.each(WRITTEN.filter(({ direction }) => direction !== "client"))(
  "$codec.name: '$name' is read",
  ({ codec, payload, frames }) => {
    expect(plain(codec.fromServer(payload))).toEqual(frames.map(filledIn));
  },
);

// Nobody writes a payload that says nothing.
test.each(WRITTEN.filter(({ direction, frames }) => direction !== "server" && frames.length))(
  "$codec.name: '$name' is written",
  ({ codec, payload, frames }) => {
    const [written, ...more] = codec.payloads(frames as FromClient[], 1 << 20);

    expect(more).toEqual([]);
    expect(read(codec, written as Uint8Array)).toEqual(frames);
    expect(read(codec, payload)).toEqual(frames);
  },
);

test.each(vectors<Case>("accepted").filter(({ direction }) => direction !== "client"))(
  "$dialect: $name is accepted",
  ({ dialect, hex, frames }) => {
    expect(plain(CODECS[dialect]?.fromServer(bytesOf(hex)))).toEqual(frames);
  },
);

test.each(vectors<Case>("refused").filter(({ direction }) => direction !== "client"))(
  "$dialect: $name is refused",
  ({ dialect, hex }) => {
    expect(() => CODECS[dialect]?.fromServer(bytesOf(hex))).toThrow(ProtocolError);
  },
);

test.each(vectors<Case>("frames").filter(({ direction }) => direction !== "client"))(
  "every part of '$name' is refused, and whatever has something behind it",
  ({ msgpack }) => {
    const payload = bytesOf(`91${msgpack}`);

    for (let length = 0; length < payload.length; length++)
      expect(() => MSGPACK.fromServer(payload.subarray(0, length))).toThrow(ProtocolError);
    expect(() => MSGPACK.fromServer(Uint8Array.of(...payload, 0xc0))).toThrow(ProtocolError);
  },
);

test.each(vectors("backoff"))(
  "attempt $attempt, lost for $lost_s s, after $retry_after_s s",
  ({ attempt, lost_s, retry_after_s, at_least_s, below_s, at_chance_half_s }) => {
    const usual = { firstS: FIRST_S, longestS: LONGEST_S };
    expect(backoffS(usual, attempt, 0, lost_s, retry_after_s)).toBeCloseTo(at_least_s);
    expect(backoffS(usual, attempt, 0.5, lost_s, retry_after_s)).toBeCloseTo(at_chance_half_s);
    expect(backoffS(usual, attempt, 1 - 1e-9, lost_s, retry_after_s)).toBeLessThan(below_s);
  },
);

test.each(vectors("closes"))("close code $code ($reason): $advice", ({ code, reason, advice: wanted }) => {
  expect(advice(code)).toBe(wanted);
  expect(isOurs(code)).toBe(reason !== null);
  if (reason !== null) expect(CLOSE_CODES).toHaveProperty(reason, code);
});

test("every close code that there is has a vector", () => {
  const known = vectors("closes").filter(({ reason }) => reason !== null);

  expect(Object.fromEntries(known.map(({ reason, code }) => [reason, code]))).toEqual(CLOSE_CODES);
});

const camel = (key: string) => key.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const verdict = (act: () => unknown) => {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return error.reason;
  }
};

/** One step of a channel's story: what it gives. */
// biome-ignore lint/suspicious/noExplicitAny: each step has arguments of its own
const STEPS: Record<string, (channel: Channel, ...given: any[]) => void> = {
  push: (channel, type, body, kept) => expect(channel.push(type, utf8(body))).toBe(kept),
  take: (channel, taken) =>
    expect(
      channel
        .take()
        .map(([, , seq, , type, body]) => [seq, type, new TextDecoder().decode((body as { bytes: Uint8Array }).bytes)]),
    ).toEqual(taken),
  ack: (channel, number, result) =>
    expect(
      verdict(() => {
        if (number > channel.acked) channel.acknowledge(number);
        return "ok";
      }),
    ).toBe(result),
  resume: (channel, generation, received, replayed) => expect(channel.resume(generation, received)).toBe(replayed),
  resync: (channel) => channel.resync(),
  is_full: (channel, is) => expect(channel.isFull).toBe(is),
  accept: (channel, seq, result) => expect(verdict(() => (channel.accept(seq) ? "new" : "double"))).toBe(result),
  applied: (channel, seq) => {
    channel.applied = seq;
  },
  owes_ack: (channel, owes) => expect(channel.owesAck).toBe(owes),
  ack_sent: (channel) => {
    channel.ackSent = channel.applied;
  },
  restart_inward: (channel, generation) => channel.restartInward(generation),
  skip_to: (channel, applied) => channel.skipTo(applied),
  state: (channel, numbers: Record<string, number>) =>
    expect(channel).toMatchObject(Object.fromEntries(Object.entries(numbers).map(([key, is]) => [camel(key), is]))),
};

test.each(vectors("channels"))("$name", ({ limits, steps }) => {
  const given = Object.fromEntries(Object.entries(limits).map(([key, limit]) => [camel(key), limit]));
  const channel = new Channel(1, { ...LIMITS, ...given });

  for (const [step, ...args] of steps) {
    expect(STEPS, "a step that this test does not know").toHaveProperty(step);
    STEPS[step]?.(channel, ...args);
  }
});
