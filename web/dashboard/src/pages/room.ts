// One room: its seats and spectators, its live state as a tree, its messages, and actions.

import {
  act,
  get,
  type NodeList,
  Problem,
  path,
  type RoomInfo,
  type RoomState,
  type SeatInfo,
  type SpectatorInfo,
  type SpectatorPage,
} from "../api";
import type { Page } from "../page";
import { attempt, confirm, field, reasonOf, say, showProblem } from "../ui/dialog";
import { every, fill, h, part } from "../ui/dom";
import { date, milliseconds, span } from "../ui/format";
import {
  badge,
  card,
  facts,
  heading,
  id,
  loading,
  nothing,
  playerLink,
  playerName,
  sessionLink,
  table,
} from "../ui/parts";
import { RecordingCard } from "../ui/recording";
import { Traffic } from "../ui/traffic";
import { Tree } from "../ui/tree";

/** The pause after a refusal to show the state: reading it blocks the games. */
const REFUSED_S = 30;
/** Of the spectators, as many as fit below the seats; the rest is a number. */
const SPECTATORS_MAX = 20;

export const room: Page = (root, room_id) => {
  const title = h("span", null, id(room_id));
  const actions = h("div", { class: "buttons" });
  const about = h("div", null, loading());
  const seats = h("div", { class: "seats" }, loading());
  const watching = h("div", { class: "seats" });
  const spectators = card("Spectators", watching);
  spectators.hidden = true;
  const tree = new Tree();
  const seen = h("p", { class: "faint" });
  const problem = h("p", { class: "problem" });
  const recording = new RecordingCard(room_id);
  const traffic = new Traffic(path`/v1/rooms/${room_id}/messages`);
  root.append(
    heading(["Room ", title], actions),
    h(
      "div",
      { class: "columns" },
      h("div", null, card("About", about), card("State, live", seen, problem, tree.element), recording.element),
      h("div", null, card("Seats", seats), spectators, card("Messages", traffic.element)),
    ),
  );
  let info: RoomInfo | null = null;
  const showTitle = part(title, (name: string) => (name === "" ? id(room_id) : name));
  const showAbout = part(about, ([room, sitting]: [RoomInfo, SeatInfo[]]) => drawAbout(room, sitting));
  const showSeats = part(seats, (all: SeatInfo[]) => drawSeats(all, kick));
  const showSpectators = part(watching, ([all, total]: [SpectatorInfo[], number]) =>
    drawSpectators(all, total, kickOut),
  );
  const showActions = part(
    actions,
    ([isHere, isLocked, isInCluster]: boolean[]) =>
      isHere && [
        h(
          "a",
          { "data-key": "play", class: "button", href: `#/playground/${encodeURIComponent(room_id)}` },
          "Play here",
        ),
        h("button", { "data-key": "broadcast", onclick: () => broadcast() }, "Broadcast"),
        h("button", { "data-key": "lock", onclick: () => lock(!isLocked) }, isLocked ? "Unlock" : "Lock"),
        isInCluster && h("button", { "data-key": "move", onclick: () => move() }, "Move"),
        h("button", { "data-key": "export", onclick: () => download() }, "Export"),
        h("button", { "data-key": "end", class: "danger", onclick: () => end() }, "End room"),
      ],
  );
  const look = async (): Promise<void> => {
    try {
      info = await get<RoomInfo>(path`/v1/rooms/${room_id}`);
      showTitle(info.name);
      const isHere = info.status !== "ended" && info.status !== "failed";
      const sitting = isHere ? (await get<{ seats: SeatInfo[] }>(path`/v1/rooms/${room_id}/seats`)).seats : [];
      showAbout([info, sitting]);
      showActions([isHere, info.is_locked, info.node !== ""]);
      await recording.look();
      if (!isHere) {
        fill(seats, nothing("The room has ended.", info.reason && `Reason: ${info.reason}.`));
        return;
      }
      showSeats(sitting);
      await lookAtSpectators(info);
      await lookInside();
    } catch (error) {
      if (error instanceof Problem && error.code === "not_found" && info === null) {
        fill(about, nothing("Room not found.", "It may have ended a while ago."));
        fill(seats);
        showActions([false, false]);
      } else {
        showProblem(info === null ? about : seats, error);
      }
    }
  };
  const move = async (): Promise<void> => {
    const { nodes } = await get<NodeList>("/v1/nodes");
    const able = nodes.filter((each) => each.state === "alive" && !each.is_draining && each.name !== info?.node);
    if (able.length === 0) {
      say("No other node of the cluster can take this room.", true);
      return;
    }
    const told = await confirm({
      title: "Move this room?",
      text: "It goes on on another node, with everybody in it: nobody drops.",
      fields: field(
        "To",
        h("select", { name: "to" }, ...able.map((each) => h("option", { value: each.life }, each.name))),
      ),
      action: "Move",
    });
    if (told !== null) {
      const to = able.find((each) => each.life === told.get("to"));
      const request = { to: String(told.get("to")) };
      await attempt(() => act("POST", path`/v1/rooms/${room_id}/move`, {}, request), `It is on ${to?.name} now.`);
      await look();
    }
  };
  const lookAtSpectators = async ({ spectators: total, max_spectators: most }: RoomInfo): Promise<void> => {
    spectators.hidden = most === 0 && total === 0;
    if (!spectators.hidden) {
      const page = await get<SpectatorPage>(path`/v1/rooms/${room_id}/spectators`, { limit: SPECTATORS_MAX });
      showSpectators([page.spectators, total]);
    }
  };
  let insideAgainAt = 0;
  const lookInside = async (): Promise<void> => {
    if (performance.now() < insideAgainAt) {
      return;
    }
    try {
      const state = await get<RoomState>(path`/v1/rooms/${room_id}/state`);
      problem.textContent = "";
      tree.show(pictured(state), marks(state.shared));
      fill(seen, state.shared && whoSees(state.shared));
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 0) {
        problem.textContent = reasonOf(error);
        insideAgainAt = performance.now() + REFUSED_S * 1000;
      }
    }
  };
  const kick = async (player: string, name: string): Promise<void> => {
    const told = await confirm({
      title: "Kick this player?",
      text: [h("b", null, playerName(player, name)), " loses the seat and its data."],
      fields: field("Reason", h("input", { name: "reason", maxlength: 256 }), "Shown to the player."),
      action: "Kick",
      isDangerous: true,
    });
    if (told !== null) {
      const reason = String(told.get("reason"));
      await attempt(
        () => act("DELETE", path`/v1/rooms/${room_id}/seats/${player}`, { reason }),
        `${name || player} was kicked.`,
      );
      await look();
    }
  };
  const kickOut = async (player: string, name: string): Promise<void> => {
    const told = await confirm({
      title: "Kick this spectator?",
      text: [h("b", null, playerName(player, name)), " watches the room no more."],
      fields: field("Reason", h("input", { name: "reason", maxlength: 256 }), "Shown to the spectator."),
      action: "Kick",
      isDangerous: true,
    });
    if (told !== null) {
      const reason = String(told.get("reason"));
      await attempt(
        () => act("DELETE", path`/v1/rooms/${room_id}/spectators/${player}`, { reason }),
        `${name || player} was kicked.`,
      );
      await look();
    }
  };
  const broadcast = async (): Promise<void> => {
    const told = await confirm({
      title: "Broadcast to this room",
      text: "The message is sent as one of the game's own: clients must know its type.",
      fields: [
        field("Type", h("input", { name: "type", value: "notice", required: true, maxlength: 64, class: "code" })),
        field(
          "Body",
          h("textarea", { name: "body", rows: 4, class: "code", spellcheck: "false", value: '{"text": "Hello"}' }),
          "A JSON object.",
        ),
      ],
      action: "Send to everybody",
    });
    if (told !== null) {
      await attempt(async () => {
        const request = { type: String(told.get("type")), body: JSON.parse(String(told.get("body"))) as unknown };
        await act("POST", path`/v1/rooms/${room_id}/broadcast`, {}, request);
      }, "The message was sent to everybody in the room.");
    }
  };
  const lock = (locked: boolean): Promise<void> =>
    attempt(
      () => act("PATCH", path`/v1/rooms/${room_id}`, {}, { locked }),
      locked ? "The room is locked." : "The room is unlocked.",
    ).then(look);
  const end = async (): Promise<void> => {
    const told = await confirm({
      title: "End this room?",
      text: "All players leave, and the room is deleted with its state.",
      fields: field("Reason", h("input", { name: "reason", maxlength: 256 })),
      action: "End room",
      isDangerous: true,
    });
    if (told !== null) {
      await attempt(
        () => act("DELETE", path`/v1/rooms/${room_id}`, { reason: String(told.get("reason")) }),
        "The room was ended.",
      );
      await look();
    }
  };
  const download = (): Promise<boolean> =>
    attempt(async () => {
      const state = await get<RoomState>(path`/v1/rooms/${room_id}/state`);
      const { seats: sitting } = await get<{ seats: SeatInfo[] }>(path`/v1/rooms/${room_id}/seats`);
      const whole = new Blob([JSON.stringify({ ...state, room: info, seats: sitting }, null, 2)], {
        type: "application/json",
      });
      const link = h("a", { href: URL.createObjectURL(whole), download: `${room_id}.json` });
      link.click();
      URL.revokeObjectURL(link.href);
    }, "The room was exported to a file, for reading.");
  const stop = every(1, look);
  return () => {
    stop();
    traffic.close();
  };
};

/** The visible parts; empty ones are left out. */
function pictured(room: RoomState): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  if (room.state !== null) {
    shown.state = room.state;
  }
  if (room.timers.length > 0) {
    shown.timers = room.timers;
  }
  Object.assign(shown, room.attributes);
  shown.players = Object.fromEntries(
    room.players.map((each) => {
      const owns = each.owned.length > 0 && { owns: each.owned };
      const groups = each.groups.length > 0 && { groups: each.groups };
      return [each.id, owns || groups ? { data: each.data, ...owns, ...groups } : each.data];
    }),
  );
  return shown;
}

function whoSees({ roots, has_view, behind, kept_bytes }: NonNullable<RoomState["shared"]>): string {
  const view = has_view ? "; each has a view of its own of the state" : "";
  const late = behind > 0 ? ` ${behind} behind: ${kept_bytes} bytes of earlier states are kept for them.` : "";
  return `Clients see ${roots.join(" and ")}${view}; you see everything.${late}`;
}

/** Of what a room shares, the fields that not everybody sees. */
function marks(shared: RoomState["shared"]): (path: readonly string[]) => string {
  const marked = (["private", "hidden"] as const).flatMap((mark) =>
    (shared?.[mark] ?? []).map((pattern) => [pattern.split("."), mark] as const),
  );
  return (path) => {
    // What a player owns is beside their data.
    const keys = path[0] === "players" && path[2] === "data" ? [...path.slice(0, 2), ...path.slice(3)] : path;
    const fits = (pattern: readonly string[]) =>
      pattern.length === keys.length && pattern.every((part, place) => part === "*" || part === keys[place]);
    return marked.find(([pattern]) => fits(pattern))?.[1] ?? "";
  };
}

function drawAbout(info: RoomInfo, sitting: SeatInfo[]) {
  const creator = sitting.find((seat) => seat.player === info.creator);
  const properties = Object.entries(info.properties).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  return facts(
    ["Status", [badge(info.status), " ", badge(info.phase), " ", info.is_locked && badge("locked")]],
    ["Kind", info.kind],
    ...(info.node === "" ? [] : [["Node", info.node] as [string, string]]),
    ["Players", `${info.players} of ${info.max_players}`],
    ["Spectators", info.max_spectators > 0 ? `${info.spectators} of ${info.max_spectators}` : "–"],
    ["Code", h("code", null, info.code || "–")],
    ["Visibility", info.visibility],
    ["Password", info.has_password ? "yes" : "no"],
    ["Host", playerLink(info.host, info.host_name)],
    ["Created by", playerLink(info.creator, creator?.name)],
    ["Created", date(info.created_at)],
    ["Properties", properties.length > 0 ? h("code", null, properties.join(", ")) : "–"],
    ["Id", id(info.id)],
  );
}

function drawSeats(seats: SeatInfo[], kick: (player: string, name: string) => void) {
  if (seats.length === 0) {
    return nothing("No players.", "An empty room ends by itself.");
  }
  return table(
    "Seats",
    ["Player and session", "Seat", "Round trip", ""],
    seats.map((seat) => [
      h(
        "div",
        { class: "stack who" },
        h(
          "span",
          null,
          playerLink(seat.player, seat.name),
          seat.is_host && h("span", { class: "badge info" }, "host"),
          seat.is_agent && badge("agent"),
        ),
        h("small", null, sessionLink(seat.session)),
      ),
      [badge(seat.state), seat.expires_in_s > 0 && h("small", null, ` ${span(seat.expires_in_s)} left`)],
      milliseconds(seat.latency_ms),
      h(
        "button",
        { class: "small danger", "data-key": `kick ${seat.player}`, onclick: () => kick(seat.player, seat.name) },
        "Kick",
      ),
    ]),
  );
}

function drawSpectators(spectators: SpectatorInfo[], total: number, kick: (player: string, name: string) => void) {
  if (spectators.length === 0) {
    return nothing("Nobody watches.");
  }
  const rows = spectators.map((each) => [
    h(
      "div",
      { class: "stack who" },
      h("span", null, playerLink(each.player, each.name)),
      h("small", null, sessionLink(each.session)),
    ),
    [badge(each.state), each.expires_in_s > 0 && h("small", null, ` ${span(each.expires_in_s)} left`)],
    milliseconds(each.latency_ms),
    h(
      "button",
      { class: "small danger", "data-key": `kick ${each.player}`, onclick: () => kick(each.player, each.name) },
      "Kick",
    ),
  ]);
  const more = total - spectators.length;
  return [
    table("Spectators", ["Player and session", "Place", "Round trip", ""], rows),
    more > 0 && h("p", null, h("small", null, `and ${more} more`)),
  ];
}
