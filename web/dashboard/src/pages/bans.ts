// The list of bans.

import { act, type BanInfo, get, path } from "../api";
import type { Page } from "../page";
import { attempt, confirm, field, reasonOf } from "../ui/dialog";
import { every, fill, h, part } from "../ui/dom";
import { date } from "../ui/format";
import { card, heading, loading, nothing, table } from "../ui/parts";

const PAGE = 100;
const SHOWN_MAX = 1000;

interface Bans {
  bans: BanInfo[];
  hasMore: boolean;
}

/** Loads as many as are shown, page by page. */
async function load(): Promise<Bans> {
  const bans: BanInfo[] = [];
  let cursor = "";
  do {
    const page = await get<{ bans: BanInfo[]; cursor?: string }>("/v1/bans", { limit: PAGE, cursor });
    bans.push(...page.bans);
    cursor = page.cursor ?? "";
  } while (cursor !== "" && bans.length < SHOWN_MAX);
  return { bans, hasMore: cursor !== "" };
}

export const bans: Page = (root) => {
  const shown = h("div", null, loading());
  root.append(heading("Bans", h("button", { class: "danger", onclick: () => ban() }, "Add a ban")), card("", shown));
  const show = part(shown, (all: Bans) =>
    all.bans.length === 0
      ? nothing("There are no bans.", "Ban a player on the page of their session, or an address here.")
      : [
          table(
            "Bans",
            ["Player or address", "Reason", "Since", "Until", ""],
            all.bans.map((each) => [
              h("code", null, each.subject),
              each.why || "–",
              date(each.since),
              each.until > 0 ? date(each.until) : "permanent",
              h("button", { class: "small", "data-key": each.subject, onclick: () => lift(each.subject) }, "Lift"),
            ]),
          ),
          all.hasMore && h("p", { class: "faint" }, `Only the first ${all.bans.length} are shown.`),
        ],
  );
  const look = async (): Promise<void> => {
    try {
      show(await load());
    } catch (error) {
      fill(shown, h("p", { class: "problem" }, reasonOf(error)));
    }
  };
  const lift = async (subject: string): Promise<void> => {
    const text = [h("code", null, subject), " can sign in again. Sessions ended by the ban stay ended."];
    if (await confirm({ title: "Lift this ban?", text, action: "Lift ban" })) {
      await attempt(() => act("DELETE", path`/v1/bans/${subject}`), "The ban was lifted.");
      await look();
    }
  };
  const ban = async (): Promise<void> => {
    const told = await confirm({
      title: "Ban a player or an address?",
      text: "Their sessions end at once, and they cannot sign in again until the ban ends.",
      fields: [
        field(
          "Type",
          h(
            "select",
            { name: "what" },
            h("option", { value: "address" }, "Address or range"),
            h("option", { value: "player" }, "Player"),
          ),
        ),
        field(
          "Address or player",
          h("input", { name: "name", required: true }),
          "For example 203.0.113.0/24, or a player's id.",
        ),
        field("Reason", h("input", { name: "why", maxlength: 256 }), "Shown to the player."),
      ],
      action: "Ban",
      isDangerous: true,
    });
    if (told !== null) {
      const request = { [String(told.get("what"))]: String(told.get("name")), why: String(told.get("why")) };
      await attempt(() => act("POST", "/v1/bans", {}, request), "The ban is in force.");
      await look();
    }
  };
  return every(5, look);
};
