// Actions on players that several pages offer.

import { act, path } from "./api";
import { attempt, confirm, field } from "./ui/dialog";
import { h } from "./ui/dom";

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
