// One session: its state, its timeline explained in plain words, and actions.

import { askToBan, askToGrant, askToLimit, askToRevoke } from "../actions";
import { act, get, Problem, path, type SessionInfo, type TimelineInfo } from "../api";
import type { Page } from "../page";
import { attempt, confirm, field, showProblem } from "../ui/dialog";
import { every, fill, h, part } from "../ui/dom";
import { bytes, clock, counted, date, milliseconds, span, words } from "../ui/format";
import { badge, card, facts, heading, id, loading, nothing, playerLink, playerName, roomLink } from "../ui/parts";

export const session: Page = (root, session_id) => {
  const actions = h("div", { class: "buttons" });
  const about = h("div", null, loading());
  const explained = h("div");
  const timeline = h("div");
  root.append(
    heading(["Session ", id(session_id)], actions),
    h("div", { class: "columns" }, card("Now", about), card("Explained", explained)),
    card("Timeline", timeline),
  );
  let info: SessionInfo | null = null;
  const showAbout = part(about, drawAbout);
  const showExplained = part(explained, drawExplained);
  const showTimeline = part(timeline, drawTimeline);
  const showActions = part(
    actions,
    ([isHere, isLogged, isConnected, hasRoom, hasRole]: boolean[]) =>
      isHere && [
        h(
          "button",
          { "data-key": "log", "aria-pressed": String(isLogged), onclick: () => logPackets(!isLogged) },
          isLogged ? "Stop packet log" : "Log packets",
        ),
        isConnected && h("button", { "data-key": "drop", onclick: () => drop() }, "Drop connection"),
        h("button", { "data-key": "grant", onclick: () => grant() }, "Grant role"),
        hasRole && h("button", { "data-key": "revoke", onclick: () => revoke() }, "Revoke role"),
        h("button", { "data-key": "limit", onclick: () => limit() }, "Change limit"),
        hasRoom && h("button", { "data-key": "kick", onclick: () => kick() }, "Kick from room"),
        h("button", { "data-key": "end", class: "danger", onclick: () => end() }, "End session"),
        h("button", { "data-key": "ban", class: "danger", onclick: () => info && askToBan(info.player) }, "Ban player"),
      ],
  );
  const look = async (): Promise<void> => {
    try {
      info = await get<SessionInfo>(path`/v1/sessions/${session_id}`);
      showAbout({
        ...info,
        age_s: Math.round(info.age_s),
        idle_s: Math.round(info.idle_s),
        connected_s: Math.round(info.connected_s),
        expires_in_s: Math.round(info.expires_in_s),
      });
    } catch (error) {
      info = null;
      if (error instanceof Problem && error.code === "not_found") {
        fill(about, nothing("This session has ended.", "Its timeline is kept for a while."));
      } else {
        showProblem(about, error);
      }
    }
    showActions([
      info !== null,
      info?.flags.includes("packet_logging") ?? false,
      info?.status === "connected",
      (info?.room ?? "") !== "",
      (info?.roles.length ?? 0) > 0,
    ]);
    try {
      const told = await get<TimelineInfo>(path`/v1/sessions/${session_id}/timeline`);
      showExplained(told);
      showTimeline(told);
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found") {
        fill(explained, nothing("Session not found.", "It never existed here, or it ended too long ago."));
      } else {
        showProblem(explained, error);
      }
    }
  };
  const logPackets = (isOn: boolean) =>
    attempt(
      () => act(isOn ? "PUT" : "DELETE", path`/v1/packet-log/${session_id}`),
      isOn ? "Its packets are logged for ten minutes." : "The packet log is off.",
    ).then(look);
  const drop = async (): Promise<void> => {
    const text =
      "The connection is cut, as by a network failure. The seat is held, and the client reconnects by itself.";
    if (await confirm({ title: "Drop this connection?", text, action: "Drop connection" })) {
      await attempt(() => act("POST", path`/v1/sessions/${session_id}/drop`), "The connection was closed.");
      await look();
    }
  };
  const grant = async (): Promise<void> => {
    if (info !== null && (await askToGrant(info.player))) {
      await look();
    }
  };
  const revoke = async (): Promise<void> => {
    if (info !== null && (await askToRevoke(info.player, info.roles))) {
      await look();
    }
  };
  const limit = async (): Promise<void> => {
    if (await askToLimit(session_id)) {
      await look();
    }
  };
  const kick = async (): Promise<void> => {
    const seat = info;
    const told = await confirm({
      title: "Kick from the room?",
      text: [
        "The player ",
        h("b", null, playerName(seat?.player ?? "", seat?.name ?? "")),
        " loses the seat and its data. The session continues.",
      ],
      fields: field("Reason", h("input", { name: "reason", maxlength: 256 }), "Shown to the player."),
      action: "Kick",
      isDangerous: true,
    });
    if (told !== null && seat !== null) {
      const reason = String(told.get("reason"));
      await attempt(
        () => act("DELETE", path`/v1/rooms/${seat.room}/seats/${seat.player}`, { reason }),
        `${seat.name || seat.player} was kicked.`,
      );
      await look();
    }
  };
  const end = async (): Promise<void> => {
    const told = await confirm({
      title: "End this session?",
      text: "This cannot be undone: the connection closes, the seat is freed, and the session's token is revoked.",
      fields: field("Reason", h("input", { name: "reason", maxlength: 256 }), "Shown to the player."),
      action: "End session",
      isDangerous: true,
    });
    if (told !== null) {
      await attempt(
        () => act("DELETE", path`/v1/sessions/${session_id}`, { reason: String(told.get("reason")) }),
        "The session was ended.",
      );
      await look();
    }
  };
  return every(2, look);
};

function drawAbout(info: SessionInfo) {
  return facts(
    ["Status", [badge(info.status), info.expires_in_s > 0 && ` ends in ${span(info.expires_in_s)}`]],
    ["Player", [playerLink(info.player, info.name), info.is_agent && badge("agent")]],
    ["Account", info.account || "–"],
    ["Roles", info.roles.join(", ") || "–"],
    ["Room", roomLink(info.room)],
    ...(info.node === "" ? [] : [["Node", info.node] as [string, string]]),
    ["Watching", roomLink(info.spectating)],
    ["Signed in", date(info.signed_in_at)],
    ["Age", span(info.age_s)],
    ["Last input", `${span(info.idle_s)} ago`],
    ["Address", info.address || "–"],
    ["Connection", info.connection === "" ? "–" : [id(info.connection), ` ${words(info.connection_state)}`]],
    ["Connected for", info.connection === "" ? "–" : span(info.connected_s)],
    ["Transport", [info.transport, info.codec].filter((each) => each !== "").join(", ") || "–"],
    ["Round trip", milliseconds(info.latency_ms)],
    ["Received", `${counted(info.messages_in, "message")}, ${bytes(info.bytes_in)}`],
    ["Sent", `${counted(info.messages_out, "message")}, ${bytes(info.bytes_out)}`],
    ["Drops / resumes", `${info.drops} / ${info.resumes}`],
    [
      "Limits of its own",
      Object.entries(info.limits)
        .map(([name, value]) => `${name} ${value}`)
        .join(", ") || "–",
    ],
    ["Flags", info.flags.join(", ").replaceAll("_", " ") || "–"],
  );
}

function drawExplained(told: TimelineInfo) {
  return [
    h("p", { class: "verdict" }, told.explanation),
    told.advice !== "" && h("p", { class: "advice" }, told.advice),
    h("p", { class: "faint" }, "Times are UTC."),
  ];
}

function drawTimeline(told: TimelineInfo) {
  return [
    told.forgotten > 0 && h("p", { class: "faint" }, `${told.forgotten} older entries are not kept.`),
    h(
      "ol",
      { class: "timeline" },
      ...told.entries.map((entry) =>
        h(
          "li",
          { class: tone(entry.type) },
          h("time", { title: date(entry.at) }, clock(entry.at)),
          h(
            "div",
            null,
            h("b", null, entry.text),
            h("code", null, entry.node === "" ? entry.type : `${entry.type} on ${entry.node}`),
          ),
        ),
      ),
    ),
  ];
}

function tone(type: string): string {
  if (/dropped|failed|reused|exceeded/.test(type)) {
    return "warn";
  }
  return /ended|left|ban/.test(type) ? "bad" : /resumed|joined|opened|authenticated/.test(type) ? "good" : "";
}
