// The HTTP API, and those of its answers that this page shows. The key is kept for this tab alone and sent as a header:
// never in a URL, never as a cookie, so no other page can make this browser use it.

export interface NodeInfo {
  name: string;
  region: string;
  is_ready: boolean;
  is_healthy: boolean;
  rooms: number;
  rooms_max: number;
  sessions: number;
  reasons: string[];
}
export interface MemberInfo {
  name: string;
  life: string;
  state: string;
  is_self: boolean;
  version: string;
  region: string;
  started_at: number;
  heard_s: number;
  is_draining: boolean;
  is_drained: boolean;
  load: number;
  rooms: number;
  rooms_max: number;
  sessions: number;
  connections: number;
  kinds: string[];
  loop_age_s: number;
  reasons: string[];
  /** Where clients reach this node and no other; omitted if there is no such address. */
  address?: string;
}
export interface NodeList {
  nodes: MemberInfo[];
  /** Where the nodes meet; empty for a server that is alone. */
  cluster: string;
}
export interface Spread {
  bounds: number[];
  counts: number[];
  sum: number;
}
export interface LimitHit {
  limit: string;
  action: string;
  times: number;
}
/** The most important numbers of one node of a cluster. */
export interface NodeNumbers {
  /** When it counted. */
  at: number;
  name: string;
  life: string;
  is_ready: boolean;
  is_healthy: boolean;
  reasons: string[];
  players: number;
  sessions: Record<string, number>;
  rooms: number;
  totals: Record<string, number>;
}
/** Of all nodes of a cluster together. */
export interface Overview {
  at: number;
  /** The one that answers. */
  node: NodeInfo;
  players: number;
  sessions: Record<string, number>;
  rooms: Record<string, number>;
  totals: Record<string, number>;
  drops: Record<string, number>;
  spreads: Record<string, Spread>;
  limits: LimitHit[];
  /** Those whose numbers are in this; none without a cluster. */
  nodes: NodeNumbers[];
  /** The names of those that did not answer. */
  missing: string[];
}
export interface SessionInfo {
  id: string;
  player: string;
  name: string;
  status: string;
  room: string;
  spectating: string;
  transport: string;
  latency_ms: number;
  age_s: number;
  idle_s: number;
  drops: number;
  resumes: number;
  expires_in_s: number;
  flags: string[];
  account: string;
  roles: string[];
  address: string;
  connection: string;
  connection_state: string;
  connected_s: number;
  codec: string;
  signed_in_at: number;
  messages_in: number;
  messages_out: number;
  bytes_in: number;
  bytes_out: number;
  limits: Record<string, number>;
  is_agent: boolean;
  node: string;
}
export interface TimelineInfo {
  session: string;
  player: string;
  name: string;
  status: string;
  explanation: string;
  advice: string;
  reason: string;
  forgotten: number;
  entries: { at: number; type: string; text: string; body: Record<string, unknown>; node: string }[];
  node: string;
}
export interface RoomInfo {
  id: string;
  kind: string;
  name: string;
  players: number;
  max_players: number;
  open_seats: number;
  phase: string;
  status: string;
  reason: string;
  visibility: string;
  join_policy: string;
  is_locked: boolean;
  has_password: boolean;
  code: string;
  creator: string;
  host: string;
  host_name: string;
  created_at: number;
  version: number;
  properties: Record<string, unknown>;
  spectators: number;
  max_spectators: number;
  node: string;
}
export interface SeatInfo {
  player: string;
  name: string;
  state: string;
  session: string;
  latency_ms: number;
  expires_in_s: number;
  is_host: boolean;
  is_agent: boolean;
}
export interface SpectatorInfo {
  player: string;
  name: string;
  state: string;
  session: string;
  latency_ms: number;
  expires_in_s: number;
}
export interface SpectatorPage {
  spectators: SpectatorInfo[];
  cursor: string;
}
export interface RoomState {
  room: string;
  state: unknown;
  attributes: Record<string, unknown>;
  players: { id: string; seat: string; data: unknown; owned: string[]; name: string; groups: string[] }[];
  timers: { method: string; due_in_s: number; name?: string; every_s?: number }[];
  /** What clients see of it; in paths, `*` stands for any key. Null: the room shares nothing. */
  shared: {
    roots: string[];
    private: string[];
    hidden: string[];
    has_view: boolean;
    behind: number;
    kept_bytes: number;
  } | null;
}
/** What is kept of a room's recording. */
export interface RecordingInfo {
  room: string;
  kind: string;
  first: number;
  last: number;
  began_at: number;
  bytes: number;
  is_live: boolean;
  stopped: string;
}
export interface TurnInfo {
  number: number;
  at: number;
  took_ms: number;
  kind: string;
  name: string;
  player: string;
  body: unknown;
  changed: string[];
  sent: { name: string; players: string[]; bytes: number; body: unknown; is_latest: boolean }[];
  error_code: string;
  error: string;
}
export interface TurnState {
  turn: TurnInfo;
  state: Record<string, unknown>;
}
export interface PlayerInfo {
  id: string;
  name: string;
  sessions: string[];
  rooms: string[];
  account: string;
  roles: string[];
  granted: string[];
  revoked: string[];
  is_agent: boolean;
  nodes: string[];
}
export interface BanInfo {
  subject: string;
  why: string;
  until: number;
  since: number;
}
export interface PlacementInfo {
  id: string;
  queue: string;
  status: string;
  players: string[];
  reason: string;
  node: string;
  room: RoomInfo | null;
  started_at: number;
  ended_at: number;
}
export interface QueueInfo {
  name: string;
  destinations: string[];
  timeout_s: number;
  pending: number;
}
export interface Settings {
  version: string;
  started_at: number;
  urls: Record<string, string>;
  origins: string[];
  auth: string[];
  store: string;
  grace_s: number;
  too_many_sessions: string;
  limits: { name: string; value: number | string; default: number | string }[];
}
export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string | string[];
  anyOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema | boolean;
  default?: unknown;
  minimum?: number;
  maximum?: number;
}
export interface MessageKind {
  type: string;
  role: string;
  schema: Schema;
}
export interface KindInfo {
  kind: string;
  settings: Record<string, unknown>;
  messages: MessageKind[];
  /** Of what players join with; null if nothing. */
  options: Schema | null;
}
export interface EventInfo {
  id: number;
  type: string;
  at: number;
  body: Record<string, unknown>;
  node: string;
}

/** A refusal by the server; or it did not answer at all (code "unreachable"). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

type Query = Record<string, string | number | undefined>;

const STORED = "holdfast.key";
let key = sessionStorage.getItem(STORED) ?? "";
let refused: () => void = () => {};
let missing: (nodes: string[]) => void = () => {};

export function hasKey(): boolean {
  return key !== "";
}

/** Use this key from now on; an empty one forgets it. */
export function setKey(value: string): void {
  key = value;
  if (value) {
    sessionStorage.setItem(STORED, value);
  } else {
    sessionStorage.removeItem(STORED);
  }
}

/** Called when the server asks for another key. */
export function onRefused(then: () => void): void {
  refused = then;
}

export async function ask(method: string, path: string, query: Query = {}, body?: unknown): Promise<Response> {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") {
      url.searchParams.set(name, String(value));
    }
  }
  const headers: Record<string, string> = {};
  if (key) {
    headers.Authorization = `Bearer ${key}`;
  }
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  let answer: Response;
  try {
    const content = body === undefined ? null : JSON.stringify(body);
    answer = await fetch(url, { method, headers, body: content, credentials: "omit", cache: "no-store" });
  } catch {
    throw new Problem(0, "unreachable", "The server does not answer.");
  }
  if (!answer.ok) {
    const told = (await answer.json().catch(() => ({}))) as { code?: string; detail?: string };
    if (answer.status === 401) {
      refused();
    }
    throw new Problem(answer.status, told.code ?? "unknown", told.detail ?? answer.statusText);
  }
  return answer;
}

export async function get<T>(path: string, query: Query = {}): Promise<T> {
  const answer = (await (await ask("GET", path, query)).json()) as T & { missing?: string[] };
  if (answer.missing !== undefined) {
    missing(answer.missing);
  }
  return answer;
}

/** Called with the names of the nodes that did not answer for the list that is shown; none if all did. */
export function onMissing(then: (nodes: string[]) => void): void {
  missing = then;
}

export async function act<T = void>(method: string, path: string, query: Query = {}, body?: unknown): Promise<T> {
  const answer = await ask(method, path, query, body);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

/** A path with ids in it: path`/v1/rooms/${id}`. Throws for an id that a URL would resolve as a parent path. */
export function path(parts: TemplateStringsArray, ...ids: string[]): string {
  if (ids.some((id) => id === "" || id === "." || id === "..")) {
    throw new Error("this id cannot be part of a URL");
  }
  return parts.reduce((so_far, text, index) => so_far + encodeURIComponent(ids[index - 1] ?? "") + text);
}
