/**
 * What can go wrong, and whose doing it is.
 *
 *     HoldfastError
 *     ├── Refused        the rules say no; the session lives, nothing changed (code, message)
 *     ├── Reset          the answer is lost; nobody knows whether it was carried out (reason)
 *     ├── ProtocolError  broken by the server; the connection closes with its reason
 *     ├── Unreachable    there is no answer at the URL
 *     ├── TimedOut       what was waited for did not come in time
 *     └── SessionEnded   the session is over (reason, message, problem)
 */

import type { CloseReason, Reason } from "./reasons.js";

/** The root of all errors that Holdfast throws on purpose. */
export class HoldfastError extends Error {
  // Not the class's own name: that is another once the code was made small.
  override name = "HoldfastError";
}

/** The codes of refusals; a newer server may know more. */
export type RefusalCode =
  | "refused"
  | "not_found"
  | "room_full"
  | "room_locked"
  | "wrong_password"
  | "name_taken"
  | "name_not_allowed"
  | "conflict"
  | "expired"
  | "not_allowed"
  | "already_seated"
  | "already_spectating"
  | "duplicate"
  | "not_seated"
  | "other_version"
  | "invalid"
  | "throttled"
  | "failed"
  | "internal"
  | (string & {});

/** The rules say no; nothing changed. */
export class Refused extends HoldfastError {
  override name = "Refused";

  constructor(
    readonly code: RefusalCode,
    message = "",
  ) {
    super(message || code.replaceAll("_", " "));
  }
}

/** The answer is lost: the session was reset, or the room's stream resynced. It was carried out, or it was not. */
export class Reset extends HoldfastError {
  override name = "Reset";

  constructor(
    /** As in `Outcome`; "resynced" if only messages were lost. */
    readonly reason: Reason,
  ) {
    super(`the answer was lost (${reason || "reset"}): it is not known whether this was carried out`);
  }
}

/** The server sent something invalid. */
export class ProtocolError extends HoldfastError {
  override name = "ProtocolError";

  constructor(
    message: string,
    readonly reason: CloseReason = "protocol",
  ) {
    super(message);
  }
}

/** There is no answer at the URL, or none that this page may read. */
export class Unreachable extends HoldfastError {
  override name = "Unreachable";
}

/** What was waited for did not come in time. */
export class TimedOut extends HoldfastError {
  override name = "TimedOut";
}

/** The session is over, on this side of the wire. */
export class SessionEnded extends HoldfastError {
  override name = "SessionEnded";

  constructor(
    readonly reason: Reason,
    message = "",
    /** Of `refused`: the code of the refusal. */
    readonly problem: RefusalCode = "",
  ) {
    super(message || reason);
  }
}
