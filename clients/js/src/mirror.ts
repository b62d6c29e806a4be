/**
 * A copy of what a room shares: it follows the changes and tells listeners by path.
 *
 * A message is `[flags, node, node?]`: the part that everybody gets, then what only this player does. A view may come in
 * several messages; listeners hear of it when the last one has come. What a node is: docs/protocol.md.
 */

import type { Off } from "./emitter.js";
import { HoldfastError, ProtocolError } from "./errors.js";

/** The state is complete only with the next message. */
export const MORE_FOLLOWS = 1;
/** Whatever the mirror has is gone: this is the beginning of a whole view. */
export const FORGET_FIRST = 2;

const DEPTH_MAX = 32;

export type Key = string | number;
export type Path = readonly Key[];

/** A change of something that the mirror does not have: only the whole view helps. */
export class OutOfSync extends HoldfastError {
  override name = "OutOfSync";
}

/** One change: where, what was there before, and of splices the places whose values may be others now. */
export interface Changed {
  readonly path: Path;
  readonly before: unknown;
  readonly places?: readonly [first: number, end: number];
}

// What changes go into. Keys of an object are text, places of an array are numbers.
type Inside = Record<Key, unknown> | unknown[];

/** Apply a node: in place, or as a copy that shares what has not changed. What was changed is added to `changed`. */
export function apply<T>(target: T, node: unknown, changed: Changed[] = [], immutable = false, path: Path = []): T {
  const [set, into, gone, splice, nth] = partsOf(node, path.length);
  const is = target as Inside;
  const list = Array.isArray(is);
  const made = (immutable ? (list ? [...is] : { ...is }) : is) as Record<Key, unknown> & unknown[];
  const note = (key: Key) => changed.push({ path: [...path, key], before: at(made, [key]) });
  if (nth.length && list) throw new OutOfSync("only objects have keys that can be counted");
  const keys = nth.length ? Object.keys(made).sort() : [];
  const enter = (key: Key, inner: unknown) => {
    const child = Object.hasOwn(made, key) ? made[key] : undefined;
    if (typeof child !== "object" || child === null) throw new OutOfSync(`nothing can change in ${key}`);
    put(made, key, apply(child, inner, changed, immutable, [...path, key]));
  };
  for (let i = 0; i < nth.length; i += 2) enter(keys[keyOf(keys, nth[i]) as number] as string, nth[i + 1]);
  if (splice.length) changed.push({ path, before: undefined, places: spliceAll(made, splice) });
  for (let i = 0; i < set.length; i += 2) {
    const key = keyOf(made, set[i]);
    note(key);
    put(made, key, set[i + 1]);
  }
  for (let i = 0; i < into.length; i += 2) enter(keyOf(made, into[i]), into[i + 1]);
  for (const each of gone) {
    const key = keyOf(made, each);
    if (list || !Object.hasOwn(made, key)) throw new OutOfSync(`${key} cannot go: it is not there`);
    note(key);
    delete made[key];
  }
  return made as T;
}

function partsOf(node: unknown, depth: number): [unknown[], unknown[], unknown[], unknown[], unknown[]] {
  if (depth > DEPTH_MAX) throw new ProtocolError(`a change is nested more than ${DEPTH_MAX} levels deep`);
  const is = Array.isArray(node) && node.length > 0 && node.length <= 5 && node.every(Array.isArray);
  const [set = [], into = [], gone = [], splice = [], nth = []] = (is ? node : []) as unknown[][];
  if (!is || set.length % 2 || into.length % 2 || splice.length % 3 || nth.length % 2)
    throw new ProtocolError("a change is not a node");
  return [set, into, gone, splice, nth];
}

/** A key as it is in this object or array. */
function keyOf(target: Inside, key: unknown): Key {
  if (!Array.isArray(target) && typeof key === "string") return key;
  if (!Number.isSafeInteger(key)) throw new ProtocolError(`${String(key)} is not a key`);
  if (!Array.isArray(target)) return String(key);
  if ((key as number) < 0 || (key as number) >= target.length) throw new OutOfSync(`there is no place ${key}`);
  return key as number;
}

function put(target: Record<Key, unknown>, key: Key, value: unknown): void {
  // Not assigned: that would be the object's prototype.
  if (key === "__proto__")
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  else target[key] = value;
}

function spliceAll(target: unknown[], splice: unknown[]): [number, number] {
  if (!Array.isArray(target)) throw new OutOfSync("only arrays have places");
  let first = target.length;
  let end = target.length;
  for (let i = 0; i < splice.length; i += 3) {
    const [at, cut, values] = splice.slice(i, i + 3) as [number, number, unknown[]];
    if (!Number.isSafeInteger(at) || !Number.isSafeInteger(cut) || at < 0 || cut < 0 || !Array.isArray(values))
      throw new ProtocolError("a change is not a splice");
    if (at + cut > target.length) throw new OutOfSync(`${cut} values from place ${at} cannot go`);
    const rest = target.splice(at).slice(cut);
    // One by one: an argument for each would be too many for a call.
    for (const value of values) target.push(value);
    for (const value of rest) target.push(value);
    first = Math.min(first, at);
    end = splice.length === 3 && cut === values.length ? at + cut : Math.max(end, target.length);
  }
  return [first, end];
}

/** The value at a path, and the keys for each `*` in it; `undefined`: it is gone. */
export type PathListener = (value: unknown, ...keys: Key[]) => unknown;
/** All paths that one complete change has changed. */
export type ChangeListener = (paths: Path[]) => unknown;

interface Listening {
  /** The segments of a path; none for all changes. */
  readonly pattern: readonly string[];
  readonly listener: PathListener | ChangeListener;
}

export class Mirror {
  /** Plain data. Read it, never change it. */
  root: Readonly<Record<string, unknown>> = {};
  /** Whether the whole view is here: not before the first, between the parts of one, or once it is out of sync. */
  isComplete = false;
  /** Whether every change makes another `root`, which shares with the one before what has not changed. */
  immutable: boolean;
  readonly #listeners = new Set<Listening>();
  #isBroken = true;
  #changed: Changed[] = [];

  constructor({ immutable = false } = {}) {
    this.immutable = immutable;
  }

  /** Listen to a path such as `players.*`, or, without one, once for each complete change. */
  onChange(path: string, listener: PathListener): Off;
  onChange(listener: ChangeListener): Off;
  onChange(path: string | ChangeListener, listener?: PathListener): Off {
    const entry: Listening =
      typeof path === "string"
        ? { pattern: path.split("."), listener: listener as PathListener }
        : { pattern: [], listener: path };
    this.#listeners.add(entry);
    return () => {
      this.#listeners.delete(entry);
    };
  }

  /** Apply a message. After `OutOfSync` or a `ProtocolError` only a whole view helps. */
  receive(body: unknown): void {
    try {
      this.#apply(body);
    } catch (error) {
      this.#isBroken = true;
      this.isComplete = false;
      throw error;
    }
    if (!this.isComplete) return;
    const changed = this.#changed;
    this.#changed = [];
    if (changed.length) for (const entry of [...this.#listeners]) this.#tell(entry, changed);
  }

  #apply(body: unknown): void {
    const [flags, ...nodes] = Array.isArray(body) ? body : [];
    if (!Number.isSafeInteger(flags) || nodes.length < 1 || nodes.length > 2)
      throw new ProtocolError("a change is not flags and one or two nodes");
    if (flags & FORGET_FIRST) {
      this.#changed.push({ path: [], before: this.root });
      this.root = {};
      this.isComplete = this.#isBroken = false;
    }
    if (this.#isBroken) throw new OutOfSync("a change came before the whole view");
    for (const node of nodes) this.root = apply(this.root, node, this.#changed, this.immutable);
    this.isComplete = !(flags & MORE_FOLLOWS);
  }

  #tell({ pattern, listener }: Listening, all: Changed[]): void {
    const paths = pattern.length ? new Map<string, Path>() : undefined;
    if (paths)
      for (const changed of all)
        for (const path of matches(this.root, pattern, changed)) paths.set(JSON.stringify(path), path);
    const calls = paths
      ? [...paths.values()].map((path) => [at(this.root, path), ...path.filter((_, i) => pattern[i] === "*")])
      : [[all.map(({ path }) => path)]];
    for (const told of calls) {
      try {
        (listener as (...told: unknown[]) => unknown)(...told);
      } catch (error) {
        console.error(`holdfast: a listener for "${pattern.join(".")}" failed`, error);
      }
    }
  }
}

function at(value: unknown, path: Path): unknown {
  let found = value;
  for (const key of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<Key, unknown>)[key];
  }
  return found;
}

/** The paths of this pattern whose value may be another because of a change. */
function matches(root: unknown, pattern: readonly string[], { path, before, places }: Changed): Path[] {
  if (path.some((key, i) => i < pattern.length && pattern[i] !== "*" && pattern[i] !== String(key))) return [];
  if (path.length >= pattern.length) return [path.slice(0, pattern.length)];
  const now = at(root, path);
  const [first, ...rest] = pattern.slice(path.length);
  if (!places) return expanded([before, now], pattern.slice(path.length)).map((more) => [...path, ...more]);
  const found: Path[] = [];
  for (let place = places[0]; place < places[1]; place++)
    if (first === "*" || first === String(place))
      for (const more of rest.length ? expanded([at(now, [place])], rest) : [[]]) found.push([...path, place, ...more]);
  return found;
}

/** The paths of this pattern that are, or were, in one of these values. */
function expanded(values: unknown[], [segment, ...rest]: readonly string[]): Path[] {
  if (segment === undefined) return values.some((value) => value !== undefined) ? [[]] : [];
  const keys = new Set<Key>();
  for (const value of values)
    if (Array.isArray(value)) for (let i = 0; i < value.length; i++) keys.add(i);
    else if (typeof value === "object" && value !== null) for (const key of Object.keys(value)) keys.add(key);
  return [...keys].flatMap((key) =>
    segment === "*" || segment === String(key)
      ? expanded(
          values.map((value) => at(value, [key])),
          rest,
        ).map((more) => [key, ...more])
      : [],
  );
}
