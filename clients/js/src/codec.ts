/** Frames to bytes and back, in two encodings. Bodies are encoded once, when they are sent, and travel as they are. */

import { ProtocolError } from "./errors.js";
import { type FromClient, type FromServer, fromServer } from "./frames.js";
import { DEPTH_MAX, decode, encode } from "./msgpack.js";
import { bytesOf, textOf } from "./text.js";

/** The bytes of a value, to be put into a frame as they are. */
export class Raw {
  constructor(readonly bytes: Uint8Array) {}
}

interface Encoding {
  readonly name: string;
  /** Whether payloads travel as text. */
  readonly text: boolean;
  encode(value: unknown): Uint8Array;
  decode(payload: Uint8Array): unknown;
  /** The bytes of a null: what stands for a body until it is put there, and of what comes after it. */
  readonly hole: number;
  readonly tail: string;
  /** What stands before and between the parts of an array. */
  head(length: number): Uint8Array;
  readonly comma: string;
}

export class Codec {
  readonly #encoding: Encoding;
  readonly name: string;
  readonly text: boolean;

  constructor(encoding: Encoding) {
    this.#encoding = encoding;
    this.name = encoding.name;
    this.text = encoding.text;
  }

  /** A body; `TypeError` for what has no place in one. */
  encode(value: unknown): Uint8Array {
    return this.#encoding.encode(value);
  }

  /** What `encode` made a body of. */
  decode(body: Uint8Array): unknown {
    return this.#encoding.decode(body);
  }

  /** What a server said, checked. */
  fromServer(payload: Uint8Array): FromServer[] {
    let value: unknown;
    try {
      value = this.#encoding.decode(payload);
    } catch (error) {
      throw new ProtocolError(`not a payload of frames: ${error}`);
    }
    return fromServer(value);
  }

  /** Frames as payloads of at most this size, in order: one, unless they do not fit. A larger frame goes alone. */
  payloads(frames: FromClient[], bytesMax: number): Uint8Array[] {
    const payloads: Uint8Array[] = [];
    let batch: Uint8Array[] = [];
    let size = HEAD_BYTES;
    for (const frame of frames.map((each) => this.#frame(each))) {
      if (batch.length && size + frame.length + 1 > bytesMax) {
        payloads.push(this.#joined(batch));
        batch = [];
        size = HEAD_BYTES;
      }
      batch.push(frame);
      size += frame.length + 1;
    }
    if (batch.length) payloads.push(this.#joined(batch));
    return payloads;
  }

  #frame(frame: FromClient): Uint8Array {
    const body = frame.at(-1);
    if (!(body instanceof Raw)) return this.#encoding.encode(frame);
    const head = this.#encoding.encode([...frame.slice(0, -1), null]);
    return concat([head.subarray(0, head.length - this.#encoding.hole), body.bytes, bytesOf(this.#encoding.tail)]);
  }

  #joined(frames: Uint8Array[]): Uint8Array {
    const comma = bytesOf(this.#encoding.comma);
    const parts = frames.flatMap((frame, i) => (i ? [comma, frame] : [frame]));
    return concat([this.#encoding.head(frames.length), ...parts, bytesOf(this.#encoding.tail)]);
  }
}

// The most that a payload is longer than its frames, beside JSON's comma after each.
const HEAD_BYTES = 5;

function concat(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export const MSGPACK = new Codec({
  name: "holdfast.v1.msgpack",
  text: false,
  encode,
  decode,
  hole: 1,
  tail: "",
  head: (length) =>
    Uint8Array.from(length < 16 ? [0x90 | length] : [0xdd, length >> 24, length >> 16, length >> 8, length]),
  comma: "",
});

const PLAIN = / (Object|Array|String|Number|Boolean|Null|Undefined|BigInt)]/;

const ESCAPES = /\\(ud[89a-f]..|.)/g;

export const JSON_TEXT = new Codec({
  name: "holdfast.v1.json",
  text: true,
  encode(value) {
    const depths = new Map<unknown, number>();
    // What JSON would quietly write as null is refused.
    const text = JSON.stringify(value, function (this: Record<string, unknown>, key, part) {
      // As it was given: JSON would make a text of a date, and nothing of bytes, a map or a function.
      if (!PLAIN.test(Object.prototype.toString.call(this[key]))) throw new TypeError("JSON has no place for this");
      if (typeof part === "number" && !Number.isFinite(part)) throw new TypeError(`JSON has no ${part}`);
      if (typeof part === "object") {
        const depth = (depths.get(this) ?? 0) + 1;
        if (depth > DEPTH_MAX + 1) throw new TypeError("nested too deep");
        depths.set(part, depth);
      }
      return part;
    });
    if (text === undefined) throw new TypeError(`a ${typeof value} has no place in a message`);
    // Half a surrogate pair, in a text or a key, is replaced, as MessagePack does. Only such halves are written as escapes.
    return bytesOf(text.replace(ESCAPES, (each) => (each.startsWith("\\ud") ? "\ufffd" : each)));
  },
  decode: (payload) => JSON.parse(textOf(payload)),
  hole: 5,
  tail: "]",
  head: () => bytesOf("["),
  comma: ",",
});

export const CODECS: Record<string, Codec> = { [MSGPACK.name]: MSGPACK, [JSON_TEXT.name]: JSON_TEXT };
