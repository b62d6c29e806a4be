// Actions on players, for all pages that offer them.

import { act, path } from "./api";
import { attempt, confirm, field, reasonOf, say } from "./ui/dialog";
import { h } from "./ui/dom";
import { counted } from "./ui/format";

const HOURS: [string, string][] = [
  ["3600", "One hour"],
  ["86400", "One day"],
  ["604800", "One week"],
  ["", "Permanently"],
];

/** Ban a player, after a confirmation. */
export async function askToBan(player: string): Promise<void> {
  const told = await confirm({
    title: "Ban this player?",
    text: ["All sessions of ", h("b", null, player), " end at once, and they cannot sign in again until the ban ends."],
    fields: [
      field("Duration", h("select", { name: "for_s" }, ...HOURS.map(([value, name]) => h("option", { value }, name)))),
      field("Reason", h("input", { name: "why", maxlength: 256 }), "Shown to the player."),
    ],
    action: "Ban player",
    isDangerous: true,
  });
  if (told !== null) {
    const for_s = String(told.get("for_s"));
    const request = { player, why: String(told.get("why")), ...(for_s === "" ? {} : { for_s: Number(for_s) }) };
    await attempt(() => act("POST", "/v1/bans", {}, request), `${player} is banned.`);
  }
}

/** Send a text to every session on the node, or to some; asks for the text. */
export async function askToBroadcast(kinds: string[]): Promise<void> {
  const options = [h("option", { value: "" }, "Any"), ...kinds.map((kind) => h("option", { value: kind }, kind))];
  const told = await confirm({
    title: "Send a message to everybody",
    text: "Every session gets it, with or without a seat; players who are away get it when they return.",
    fields: [
      field(
        "Text",
        h("textarea", { name: "text", rows: 3, required: true, maxlength: 1024 }),
        "Your game's clients show it if they read the messages of their session.",
      ),
      field("In rooms of this kind", h("select", { name: "kind" }, ...options)),
      field("With this role", h("input", { name: "role", maxlength: 64 }), "Empty: everybody."),
    ],
    action: "Send",
  });
  if (told === null) {
    return;
  }
  try {
    const request = Object.fromEntries(["text", "kind", "role"].map((name) => [name, String(told.get(name))]));
    const { sessions } = await act<{ sessions: number }>("POST", "/v1/broadcast", {}, request);
    say(`Sent to ${counted(sessions, "session")}.`);
  } catch (error) {
    say(reasonOf(error), true);
  }
}

/** Sign a player out everywhere, after a confirmation. */
export async function askToSignOut(player: string): Promise<void> {
  const told = await confirm({
    title: "Sign this player out everywhere?",
    text: ["All sessions of ", h("b", null, player), " end at once. They can sign in again."],
    fields: field("Reason", h("input", { name: "reason", maxlength: 256 }), "Shown to the player."),
    action: "Sign out",
    isDangerous: true,
  });
  if (told !== null) {
    const reason = String(told.get("reason"));
    await attempt(() => act("POST", path`/v1/players/${player}/sign-out`, { reason }), `${player} was signed out.`);
  }
}

/** Give a player a role, after a confirmation; whether it was done. */
export async function askToGrant(player: string): Promise<boolean> {
  const told = await confirm({
    title: "Grant a role?",
    text: [h("b", null, player), " has the role at once, and keeps it until it is revoked, however they sign in."],
    fields: field("Role", h("input", { name: "role", required: true, maxlength: 64 }), "As in the game's code: gm."),
    action: "Grant role",
  });
  const role = String(told?.get("role") ?? "").trim();
  if (role !== "") {
    await attempt(() => act("PUT", path`/v1/players/${player}/roles/${role}`), `${player} has the role ${role}.`);
  }
  return role !== "";
}

/** Take one of these roles from a player, after a confirmation; whether it was done. */
export async function askToRevoke(player: string, roles: string[]): Promise<boolean> {
  const told = await confirm({
    title: "Revoke a role?",
    text: [h("b", null, player), " loses the role at once, and does not get it back by signing in again."],
    fields: field("Role", h("select", { name: "role" }, ...roles.map((each) => h("option", { value: each }, each)))),
    action: "Revoke role",
    isDangerous: true,
  });
  if (told !== null) {
    const role = String(told.get("role"));
    await attempt(
      () => act("DELETE", path`/v1/players/${player}/roles/${role}`),
      `${player} no longer has the role ${role}.`,
    );
  }
  return told !== null;
}

/** What may be changed for one session. */
const LIMITS = [
  "messages_per_s",
  "messages_burst",
  "latest_per_s",
  "latest_burst",
  "requests_per_s",
  "requests_burst",
  "bytes_per_s",
  "bytes_burst",
  "idle_s",
  "session_age_max_s",
];

/** Change a limit of one session, after a confirmation; whether it was done. */
export async function askToLimit(session: string): Promise<boolean> {
  const told = await confirm({
    title: "Change a limit?",
    text: "It is in force at once, for this session alone, and for as long as it lives.",
    fields: [
      field("Limit", h("select", { name: "limit" }, ...LIMITS.map((each) => h("option", { value: each }, each)))),
      field(
        "Value",
        h("input", { name: "value", type: "number", min: 0, step: "any" }),
        "Empty: as for everybody with these roles.",
      ),
    ],
    action: "Change limit",
  });
  if (told !== null) {
    const name = String(told.get("limit"));
    const value = String(told.get("value"));
    const limits = { [name]: value === "" ? null : Number(value) };
    await attempt(
      () => act("PATCH", path`/v1/sessions/${session}`, {}, { limits }),
      value === "" ? `${name} is the usual one again.` : `${name} is ${value} for this session.`,
    );
  }
  return told !== null;
}

/** Undo what was granted to a player and revoked from them, after a confirmation; whether it was done. */
export async function askToResetRoles(player: string): Promise<boolean> {
  const told = await confirm({
    title: "Reset the roles?",
    text: ["Everything that was granted to ", h("b", null, player), " and revoked from them is undone."],
    action: "Reset roles",
  });
  if (told !== null) {
    await attempt(() => act("DELETE", path`/v1/players/${player}/roles`), `The roles of ${player} were reset.`);
  }
  return told !== null;
}
