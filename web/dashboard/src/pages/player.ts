// One player: their sessions and rooms, and the latest session explained.

import { askToBan, askToGrant, askToResetRoles, askToRevoke, askToSignOut } from "../actions";
import { get, type PlayerInfo, Problem, path, type TimelineInfo } from "../api";
import type { Page } from "../page";
import { showProblem } from "../ui/dialog";
import { every, fill, h, part } from "../ui/dom";
import { card, facts, heading, loading, nothing, roomLink, sessionLink } from "../ui/parts";

export const player: Page = (root, player_id) => {
  const roles = h("div", { class: "buttons" });
  const about = h("div", null, loading());
  const explained = h("div", null, loading());
  root.append(
    heading(
      ["Player ", player_id],
      h("button", { onclick: () => askToGrant(player_id).then(look) }, "Grant role"),
      roles,
      h("button", { onclick: () => askToSignOut(player_id) }, "Sign out everywhere"),
      h("button", { class: "danger", onclick: () => askToBan(player_id) }, "Ban player"),
    ),
    h("div", { class: "columns" }, card("Now", about), card("Latest session, explained", explained)),
  );
  const showAbout = part(about, (info: PlayerInfo) =>
    facts(
      ["Name", info.name === "" ? "–" : h("bdi", null, info.name)],
      ["Account", info.account || "–"],
      ["Roles", info.roles.join(", ") || "–"],
      ["Granted", info.granted.join(", ") || "–"],
      ["Revoked", info.revoked.join(", ") || "–"],
      ["Sessions", lines(info.sessions.map((each) => sessionLink(each) as HTMLElement))],
      ["Rooms", lines(info.rooms.map((each) => roomLink(each) as HTMLElement))],
    ),
  );
  const showRoles = part(roles, ([held, isChanged]: [string[], boolean]) => [
    held.length > 0 &&
      h("button", { "data-key": "revoke", onclick: () => askToRevoke(player_id, held).then(look) }, "Revoke role"),
    isChanged &&
      h("button", { "data-key": "reset", onclick: () => askToResetRoles(player_id).then(look) }, "Reset roles"),
  ]);
  const showExplained = part(explained, (told: TimelineInfo) => [
    h("p", { class: "verdict" }, told.explanation),
    told.advice !== "" && h("p", { class: "advice" }, told.advice),
    h("p", null, "Full timeline: ", sessionLink(told.session)),
  ]);
  const look = async (): Promise<void> => {
    try {
      const info = await get<PlayerInfo>(path`/v1/players/${player_id}`);
      showAbout(info);
      showRoles([[...new Set([...info.roles, ...info.granted])], info.granted.length + info.revoked.length > 0]);
    } catch (error) {
      showRoles([[], false]);
      if (error instanceof Problem && error.code === "not_found") {
        fill(about, nothing("Player not found.", "This player has no session and no seat on this node."));
      } else {
        showProblem(about, error);
      }
    }
    try {
      showExplained(await get<TimelineInfo>(path`/v1/players/${player_id}/timeline`));
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found") {
        fill(explained, nothing("No session found.", "Timelines are kept for a while after a session has ended."));
      } else {
        showProblem(explained, error);
      }
    }
  };
  return every(2, look);
};

function lines(links: HTMLElement[]): HTMLElement | string {
  return links.length === 0 ? "–" : h("div", { class: "stack" }, ...links);
}
