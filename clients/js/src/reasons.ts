/**
 * Why a connection, a session or a seat ended, and what a client does about it.
 *
 * The close codes come in ranges, so that a client needs no table to act: 4000-4099 resume, 4100-4199 sign in again,
 * 4200-4299 stop, below 4000 WebSocket's own codes.
 */

/** The wire's number for each reason that can close a connection. */
export const CLOSE_CODES = {
  // The connection ended; the session lives on.
  dropped: 4000,
  sequence: 4002,
  busy: 4003,
  disconnected: 4004,
  throttled: 4005,
  flooding: 4006,
  moved: 4007,
  slow: 4008,
  silent: 4009,
  internal: 4011,
  stopping: 4012,
  hello_timeout: 4013,
  // The session cannot be had this way.
  auth_failed: 4100,
  expired: 4101,
  refused: 4102,
  token_reused: 4103,
  signed_out: 4104,
  too_old: 4106,
  rolled_back: 4107,
  // Ended on purpose, or beyond repair.
  bye: 4200,
  protocol: 4202,
  kicked: 4203,
  too_big: 4204,
  banned: 4205,
  idle: 4206,
  superseded: 4209,
} as const;

/** A reason that can close a connection. */
export type CloseReason = keyof typeof CLOSE_CODES;

/** Every reason there is: of a connection, of a seat, and what this client says to itself. A newer server may know more. */
export type Reason =
  | CloseReason
  // Ends of a seat.
  | "left"
  | "grace_ended"
  | "round_ended"
  | "room_closed"
  | "room_failed"
  | "join_failed"
  | "agent_failed"
  // The end of a spectator's place: they have a seat now.
  | "seated"
  // Of this client.
  | "unreachable"
  | "suspended"
  | (string & {});

/** What a client does after a close. */
export type Advice = "resume" | "sign_in" | "stop";

// RFC 6455's codes that a peer would only earn again by repeating itself.
const WEBSOCKET_STOP = new Set([1000, 1002, 1003, 1007, 1008, 1009, 1010]);

/** What a client should do after a close with this code. */
export function advice(code: number): Advice {
  const range = Math.floor(code / 100);
  if (range === 41) return "sign_in";
  return range === 42 || WEBSOCKET_STOP.has(code) ? "stop" : "resume";
}

/** Why a connection has ended, if no frame said so and only the transport's code is known. */
export function reasonOf(code: number): CloseReason {
  if (code === 1002 || code === 1003 || code === 1007) return "protocol";
  return code === 1009 ? "too_big" : "dropped";
}

/** Whether a close code is one of Holdfast's. */
export function isOurs(code: number): boolean {
  return Object.values(CLOSE_CODES).includes(code as never);
}
