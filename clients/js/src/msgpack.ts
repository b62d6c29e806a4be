/**
 * MessagePack, as much of it as Holdfast speaks, and strict: text must be UTF-8, and nothing may follow the value.
 *
 * Whole numbers travel as integers and come back exactly: beyond 2**53 they are bigints. -0 and fractions are floats.
 */

import { bytesOf, textOf } from "./text.js";

/** Deeper nesting is refused. */
export const DEPTH_MAX = 100;

/** Encode a value; `TypeError` for what has no place in a message. */
export function encode(value: unknown): Uint8Array {
  let bytes = new Uint8Array(256);
  let view = new DataView(bytes.buffer);
  let at = 0;

  /** Make room for so many bytes; where they begin. */
  function room(size: number): number {
    if (at + size > bytes.length) {
      const larger = new Uint8Array(Math.max(bytes.length * 2, at + size));
      larger.set(bytes);
      bytes = larger;
      view = new DataView(bytes.buffer);
    }
    at += size;
    return at - size;
  }
  // Always the place first, then what is written to: making room may make another buffer.
  const u8 = (byte: number) => {
    const start = room(1);
    bytes[start] = byte;
  };
  const u16 = (number: number) => {
    const start = room(2);
    view.setUint16(start, number);
  };
  const u32 = (number: number) => {
    const start = room(4);
    view.setUint32(start, number);
  };
  const raw = (content: Uint8Array) => {
    const start = room(content.length);
    bytes.set(content, start);
  };

  /** A type and a length; `codes` are those for 8, 16 and 32 bits, 0 if there is none. */
  function head(length: number, fix: number, fixMax: number, ...codes: [number, number, number]): void {
    if (length <= fixMax) u8(fix | length);
    else if (length < 0x100 && codes[0]) u16((codes[0] << 8) | length);
    else if (length < 0x10000) {
      u8(codes[1]);
      u16(length);
    } else {
      u8(codes[2]);
      u32(length);
    }
  }

  function integer(number: number): void {
    if (number >= 0) {
      if (number < 0x80) u8(number);
      else if (number < 0x100) u16(0xcc00 | number);
      else if (number < 0x10000) {
        u8(0xcd);
        u16(number);
      } else if (number < 0x100000000) {
        u8(0xce);
        u32(number);
      } else long(BigInt(number));
    } else if (number >= -0x20) u8(number);
    else if (number >= -0x80000000) {
      u8(0xd2);
      u32(number);
    } else long(BigInt(number));
  }

  function long(number: bigint): void {
    if (BigInt.asIntN(64, number) !== number && BigInt.asUintN(64, number) !== number)
      throw new TypeError(`${number} has more than 64 bits`);
    u8(number < 0n ? 0xd3 : 0xcf);
    const start = room(8);
    view.setBigUint64(start, BigInt.asUintN(64, number));
  }

  function float(number: number): void {
    u8(0xcb);
    const start = room(8);
    view.setFloat64(start, number);
  }

  function text(string: string): void {
    const encoded = bytesOf(string);
    head(encoded.length, 0xa0, 31, 0xd9, 0xda, 0xdb);
    raw(encoded);
  }

  function write(part: unknown, depth: number): void {
    if (depth > DEPTH_MAX) throw new TypeError("nested too deep, or in itself");
    switch (typeof part) {
      case "boolean":
        u8(part ? 0xc3 : 0xc2);
        break;
      case "number":
        if (Number.isSafeInteger(part) && !Object.is(part, -0)) integer(part);
        else float(part);
        break;
      case "bigint":
        long(part);
        break;
      case "string":
        text(part);
        break;
      case "undefined":
        u8(0xc0);
        break;
      case "object":
        object(part, depth + 1);
        break;
      default:
        throw new TypeError(`a ${typeof part} has no place in a message`);
    }
  }

  function object(part: object | null, depth: number): void {
    if (part === null) u8(0xc0);
    else if (Array.isArray(part)) {
      head(part.length, 0x90, 15, 0, 0xdc, 0xdd);
      for (const each of part) write(each, depth);
    } else if (ArrayBuffer.isView(part) || part instanceof ArrayBuffer) {
      const binary = ArrayBuffer.isView(part)
        ? new Uint8Array(part.buffer, part.byteOffset, part.byteLength)
        : new Uint8Array(part);
      head(binary.length, 0, -1, 0xc4, 0xc5, 0xc6);
      raw(binary);
    } else {
      // What is undefined is left out, as in JSON.
      const isMap = part instanceof Map;
      if (!isMap && Object.prototype.toString.call(part) !== "[object Object]")
        throw new TypeError(`a ${part.constructor?.name} has no place in a message`);
      const entries = [...(isMap ? part : Object.entries(part))].filter(([, content]) => content !== undefined);
      head(entries.length, 0x80, 15, 0, 0xde, 0xdf);
      for (const [key, content] of entries) {
        write(key, depth);
        write(content, depth);
      }
    }
  }

  write(value, 0);
  return bytes.slice(0, at);
}

/** What one value means, and nothing may follow it; throws for anything else. */
export function decode(bytes: Uint8Array): unknown {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  function skip(size: number): number {
    at += size;
    if (at > bytes.length) throw new RangeError("cut short");
    return at - size;
  }
  const u8 = () => view.getUint8(skip(1));
  /** A number of 1, 2 or 4 bytes, for 0, 1 and 2. */
  function size(power: number): number {
    if (power === 0) return u8();
    return power === 1 ? view.getUint16(skip(2)) : view.getUint32(skip(4));
  }
  const short = (number: bigint) => (BigInt.asIntN(54, number) === number ? Number(number) : number);

  function binary(length: number): Uint8Array {
    const start = skip(length);
    return bytes.subarray(start, start + length);
  }
  const text = (length: number) => textOf(binary(length));

  function array(length: number, depth: number): unknown[] {
    const parts: unknown[] = [];
    // Not made as long as it says it is: what it promises may not be there.
    for (let i = 0; i < length; i++) parts.push(read(depth));
    return parts;
  }

  function map(length: number, depth: number): object {
    const entries: [unknown, unknown][] = [];
    for (let i = 0; i < length; i++) entries.push([read(depth), read(depth)]);
    // Not assigned one by one: "__proto__" is a key like any other.
    return entries.every(([key]) => typeof key === "string")
      ? Object.fromEntries(entries as [string, unknown][])
      : new Map(entries);
  }

  /** Timestamps are dates; no other extension means anything to us. */
  function extension(length: number): Date {
    const type = view.getInt8(skip(1));
    const start = skip(length);
    if (type === -1) {
      if (length === 4) return new Date(view.getUint32(start) * 1000);
      if (length === 8) {
        const both = view.getBigUint64(start);
        return new Date(Number(both & 0x3ffffffffn) * 1000 + Number(both >> 34n) / 1e6);
      }
      if (length === 12) return new Date(Number(view.getBigInt64(start + 4)) * 1000 + view.getUint32(start) / 1e6);
    }
    throw new TypeError(`extension ${type} means nothing here`);
  }

  function read(above: number): unknown {
    const depth = above + 1;
    if (depth > DEPTH_MAX + 3) throw new RangeError("nested too deep");
    const head = u8();
    if (head < 0x80) return head;
    if (head < 0x90) return map(head & 0x0f, depth);
    if (head < 0xa0) return array(head & 0x0f, depth);
    if (head < 0xc0) return text(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0:
        return null;
      case 0xc2:
      case 0xc3:
        return head === 0xc3;
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return binary(size(head - 0xc4)).slice();
      case 0xc7:
        return extension(u8());
      case 0xca:
        return view.getFloat32(skip(4));
      case 0xcb:
        return view.getFloat64(skip(8));
      case 0xcc:
      case 0xcd:
      case 0xce:
        return size(head - 0xcc);
      case 0xcf:
        return short(view.getBigUint64(skip(8)));
      case 0xd0:
        return view.getInt8(skip(1));
      case 0xd1:
        return view.getInt16(skip(2));
      case 0xd2:
        return view.getInt32(skip(4));
      case 0xd3:
        return short(view.getBigInt64(skip(8)));
      case 0xd6:
      case 0xd7:
        return extension(head === 0xd6 ? 4 : 8);
      case 0xd9:
      case 0xda:
      case 0xdb:
        return text(size(head - 0xd9));
      case 0xdc:
      case 0xdd:
        return array(size(head - 0xdb), depth);
      case 0xde:
      case 0xdf:
        return map(size(head - 0xdd), depth);
      default:
        throw new TypeError(`the byte ${head} means nothing here`);
    }
  }

  const value = read(0);
  if (at !== bytes.length) throw new RangeError("something follows the value");
  return value;
}
