/**
 * The frames of the wire, as they are written there: an array that begins with its name (docs/protocol.md).
 *
 * What the server sends is checked here, once; fields and keys that we do not know are from a newer server and ignored.
 */

import { ProtocolError } from "./errors.js";
import type { Auth } from "./types.js";

export interface Position {
  channel: number;
  generation: number;
  received?: number;
  acked?: number;
  accepted?: number;
}

export interface Resume {
  session: string;
  token: string;
  positions: Position[];
  lineage: string;
  requests: number;
}

export interface ChannelInfo {
  channel: number;
  generation: number;
  applied: number;
  room: string;
  kind: string;
  accepted: number;
  /** What the channel is for: "seat", "spectator" or "session". */
  purpose: string;
}

export interface Terms {
  payload_bytes_max: number;
  window_messages_max: number;
  window_bytes_max: number;
  requests_in_flight_max: number;
  ping_s: number;
  silence_s: number;
  grace_s: number;
}

export interface WireOutcome {
  kind: string;
  replayed: number;
  reason: string;
  age_s: number | null;
  drop_reason: string;
}

export interface RequestProblem {
  code: string;
  message: string;
}

export type Welcome = [
  name: "welcome",
  session: string,
  player: string,
  token: string,
  outcome: WireOutcome,
  terms: Terms,
  channels: ChannelInfo[],
  requests: number,
  credential: string,
  lineage: string,
  playerName: string,
  /** Never given to this client: it does not name the feature, because browsers have no UDP. */
  datagrams: object | null,
];
export type Reply = [name: "reply", id: number, result: unknown, problem: RequestProblem | null];
export type Data = [name: "data", channel: number, seq: number, ack: number, type: string, body: unknown];
/** Messages that follow each other, numbered from `seq`: what many clients get is encoded once. */
export type Block = [
  name: "block",
  channel: number,
  seq: number,
  ack: number,
  messages: [type: string, body: unknown][],
];
export type Latest = [name: "latest", channel: number, type: string, body: unknown];
export type Ack = [name: "ack", channel: number, ack: number];
export type Ping = [
  name: "ping",
  id: number,
  channel: number,
  ack: number,
  latencyMs: number,
  /** Before a large payload: how much longer than usual nothing else may be heard. */
  quietS: number,
];
export type Seat = [
  name: "seat",
  event: string,
  channel: number,
  generation: number,
  room: string,
  kind: string,
  purpose: string,
];
export type Notice = [name: "notice", topic: string, key: string, body: unknown];
export type Close = [
  name: "close",
  code: number,
  reason: string,
  message: string,
  retryAfterS: number,
  problem: string,
];
export type FromServer = Welcome | Reply | Data | Block | Latest | Ack | Ping | Seat | Notice | Close;

export type Hello = [
  name: "hello",
  auth: Auth | null,
  resume: Resume | null,
  client: string,
  playerName: string,
  features: string[],
];
export type Request = [name: "request", id: number, operation: string, args: unknown];
export type Pong = [name: "pong", id: number, channel: number, ack: number];
export type Bye = [name: "bye", reason: string];
export type FromClient = Hello | Request | Data | Latest | Ack | Pong | Bye;

/** A session has up to three open channels, and a few that still owe their last messages. */
export const POSITIONS_MAX = 8;
/** Room for everything of a frame beside the body it carries: 64 letters of four bytes, and some numbers. */
export const FRAME_HEAD_BYTES = 512;

// What a field must be. A field that is missing is undefined here, which neither codec can say.
type Field = (value: unknown) => unknown;

const must =
  (holds: (value: unknown) => boolean, what: string): Field =>
  (value) => {
    if (!holds(value)) throw new ProtocolError(`not a payload of frames: ${what} is missing or wrong`);
    return value;
  };
const or =
  (field: Field, otherwise: unknown): Field =>
  (value) =>
    value === undefined ? otherwise : field(value);
const orNull =
  (field: Field): Field =>
  (value) =>
    value === undefined || value === null ? null : field(value);
const integer = must(Number.isSafeInteger, "an integer");
const number = must((value) => Number.isSafeInteger(value) && (value as number) >= 0, "a number");
const ordinal = must((value) => Number.isSafeInteger(value) && (value as number) >= 1, "an ordinal");
const float = must((value) => typeof value === "number", "a float");
const string = must((value) => typeof value === "string", "a string");
const name = must((value) => typeof value === "string" && value !== "" && [...value].length <= 64, "a name");
const any = must((value) => value !== undefined, "a body");
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const object =
  (fields: Record<string, Field>): Field =>
  (value) => {
    const given = must(isObject, "an object")(value) as Record<string, unknown>;
    return Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, field(given[key])]));
  };
const list =
  (field: Field, least = 0): Field =>
  (value) => {
    const given = must(Array.isArray, "an array")(value) as unknown[];
    must((length) => (length as number) >= least, "a value of an array")(given.length);
    return given.map(field);
  };

const MESSAGE: Field = (value) => {
  const [type, body] = must(Array.isArray, "a message")(value) as unknown[];
  return [name(type), any(body)];
};
const CHANNEL_INFO = object({
  channel: number,
  generation: number,
  applied: number,
  room: string,
  kind: string,
  accepted: or(number, 0),
  purpose: or(string, "seat"),
});
const OUTCOME = object({
  kind: string,
  replayed: or(integer, 0),
  reason: or(string, ""),
  age_s: orNull(float),
  drop_reason: or(string, ""),
});
const TERMS = object({
  payload_bytes_max: integer,
  window_messages_max: integer,
  window_bytes_max: integer,
  requests_in_flight_max: integer,
  ping_s: float,
  silence_s: float,
  grace_s: float,
});

const DATAGRAMS = object({
  id: string,
  secret: string,
  port: integer,
  bytes_max: integer,
  ping_s: float,
  silence_s: float,
  host: or(string, ""),
});

/** What a server may say. */
const FROM_SERVER = new Map<unknown, Field[]>(
  Object.entries({
    welcome: [
      string,
      string,
      string,
      OUTCOME,
      TERMS,
      or(list(CHANNEL_INFO), []),
      or(number, 0),
      or(string, ""),
      or(string, ""),
      or(string, ""),
      orNull(DATAGRAMS),
    ],
    reply: [number, or(any, null), orNull(object({ code: string, message: string }))],
    data: [number, ordinal, number, name, any],
    block: [number, ordinal, number, list(MESSAGE, 1)],
    latest: [number, name, any],
    ack: [number, number],
    ping: [number, or(number, 0), or(number, 0), or(float, 0), or(float, 0)],
    seat: [string, number, number, string, string, or(string, "seat")],
    notice: [string, string, any],
    close: [number, string, or(string, ""), or(float, 0), or(string, "")],
  }),
);

/** What a server said, checked and with every field filled in; `ProtocolError` if it is anything else. */
export function fromServer(payload: unknown): FromServer[] {
  return list((frame) => {
    const [frameName, ...given] = must(Array.isArray, "a frame")(frame) as unknown[];
    const fields = FROM_SERVER.get(frameName);
    if (!fields)
      throw new ProtocolError(`not a payload of frames: "${String(frameName).slice(0, 64)}" is no frame of a server`);
    return [frameName, ...fields.map((field, i) => field(given[i]))];
  })(payload) as FromServer[];
}
