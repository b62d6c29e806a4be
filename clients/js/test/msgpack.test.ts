/** Our MessagePack and everybody else's say the same; where theirs loses something, ours does not. */

import { decode as theirDecode, encode as theirEncode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { CODECS } from "../src/codec.js";
import { decode, encode } from "../src/msgpack.js";

const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

const INTEGERS = [0, 31, 32, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER];
const VALUES: unknown[] = [
  null,
  true,
  false,
  ...INTEGERS,
  ...INTEGERS.map((number) => -number - 1).filter(Number.isSafeInteger),
  0.5,
  -1.25,
  1e300,
  Number.POSITIVE_INFINITY,
  "",
  "grüße, 世界 🎲",
  ...[31, 32, 255, 256, 65535, 65536].map((length) => "x".repeat(length)),
  ...[15, 16, 65535, 65536].map((length) => Array.from({ length }, () => 1)),
  ...[0, 15, 16, 300].map((length) => Object.fromEntries(Array.from({ length }, (_, i) => [`k${i}`, i]))),
  ...[0, 255, 256, 65536].map((length) => new Uint8Array(length).fill(7)),
  { a: [{ b: { c: [1, "two", null] } }] },
];

test.each(VALUES.map((value) => [JSON.stringify(value)?.slice(0, 40), value]))("%s there and back", (_, value) => {
  expect(decode(encode(value))).toEqual(value);
  expect(theirDecode(encode(value))).toEqual(value);
  expect(decode(theirEncode(value))).toEqual(value);
});

test.each([2n ** 53n, 2n ** 63n, 2n ** 64n - 1n, -(2n ** 53n) - 1n, -(2n ** 63n)])("%d stays exact", (number) => {
  expect(decode(encode(number))).toBe(number);
});

test("a bigint that is small enough comes back as a number", () => {
  expect(decode(encode(7n))).toBe(7);
  expect(decode(encode(-7n))).toBe(-7);
});

test("whole numbers travel as integers, so that a field of either type takes them", () => {
  expect(hexOf(encode(25))).toBe("19");
  expect(hexOf(encode(25.0))).toBe("19");
});

test("a negative zero stays one", () => {
  expect(Object.is(decode(encode(-0)), -0)).toBe(true);
});

test("what is undefined is left out of an object, and null in an array", () => {
  expect(decode(encode({ a: undefined, b: 1 }))).toEqual({ b: 1 });
  expect(decode(encode([undefined]))).toEqual([null]);
});

test("a map travels as an object; one with other keys than strings comes back as a map", () => {
  expect(decode(encode(new Map([["a", 1]])))).toEqual({ a: 1 });
  expect(decode(encode(new Map([[7, "seven"]])))).toEqual(new Map([[7, "seven"]]));
});

test("a key that is called __proto__ is a key", () => {
  const value = decode(theirEncode(JSON.parse('{"__proto__": {"isAdmin": true}}'))) as { isAdmin?: boolean };

  expect(value.isAdmin).toBeUndefined();
  expect(Object.keys(value)).toEqual(["__proto__"]);
});

test("a timestamp is a date", () => {
  const date = new Date(1760000000250);

  expect(decode(theirEncode(date))).toEqual(date);
  expect(decode(theirEncode(new Date(1760000000000)))).toEqual(new Date(1760000000000));
});

const loop: unknown[] = [];
loop.push(loop);
test.each([
  ["a function", () => {}],
  ["a symbol", Symbol("x")],
  ["a date", new Date()],
  ["a set", new Set()],
  ["more than 64 bits", 2n ** 64n],
  ["what is in itself", loop],
])("%s cannot be sent", (_, value) => {
  expect(() => encode(value)).toThrow(TypeError);
});

test.each([
  ["half a letter", "a1ff"],
  ["a surrogate", "a3eda0bc"],
  ["an unknown extension", "d4050100"],
  ["a byte that means nothing", "c1"],
  ["too deep", "91".repeat(200)],
])("%s cannot be read", (_, hex) => {
  expect(() => decode(Uint8Array.from(Buffer.from(hex, "hex")))).toThrow();
});

test.each(Object.values(CODECS))("half a surrogate pair is replaced, in a text and in a key: $name", (codec) => {
  const said = { "a\ud83d": "b\udc00", list: ["\ud83d\ud83d", "🚀", '\\ud83d "\n\u0001\\'] };

  const read = codec.decode(codec.encode(said));

  expect(read).toEqual({ "a\ufffd": "b\ufffd", list: ["\ufffd\ufffd", "🚀", '\\ud83d "\n\u0001\\'] });
});

test.each(Object.values(CODECS))("what is nested too deep for a server is refused: $name", (codec) => {
  const nested = (levels: number) => Array.from({ length: levels }).reduce((inside: unknown) => [inside], 1);

  expect(codec.decode(codec.encode(nested(100)))).toEqual(nested(100));
  expect(() => codec.encode(nested(102))).toThrow("nested too deep");
});
