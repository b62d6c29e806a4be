// Rooms requested by matchmakers, and the state of each.

import { act, get, type PlacementInfo, Problem, path, type QueueInfo } from "../api";
import type { Page } from "../page";
import { attempt, confirm, reasonOf } from "../ui/dialog";
import { every, fill, h, part } from "../ui/dom";
import { clock } from "../ui/format";
import { badge, card, heading, id, loading, nothing, roomLink, table } from "../ui/parts";

export const placements: Page = (root) => {
  const queues = h("div", null, loading());
  const list = h("div", null, loading());
  root.append(heading("Placements"), card("Queues", queues), card("Placements", list));
  const showQueues = part(queues, (all: QueueInfo[]) =>
    all.length === 0
      ? nothing(
          "There are no queues.",
          "Pass queues to the server: ",
          h("code", null, "Server(queues=[Queue(…)])"),
          ".",
        )
      : table(
          "Queues",
          ["Queue", "Destinations", "Timeout", "Pending"],
          all.map((each) => [
            h("b", null, each.name),
            each.destinations.join(", "),
            `${each.timeout_s} s`,
            String(each.pending),
          ]),
        ),
  );
  const showList = part(list, (all: PlacementInfo[]) =>
    all.length === 0
      ? nothing("No recent placements.", "A backend starts one with ", h("code", null, "POST /v1/placements"), ".")
      : table(
          "Placements",
          ["Placement", "Status", "Queue", "Players", "Room", "Started", ""],
          all.map((each) => [
            id(each.id),
            [badge(each.status), each.reason && h("small", null, ` ${each.reason}`)],
            each.queue,
            each.players.join(", ") || "–",
            roomLink(each.room?.id ?? ""),
            clock(each.started_at),
            each.status === "pending" &&
              h("button", { class: "small danger", "data-key": each.id, onclick: () => stop(each.id) }, "Stop"),
          ]),
        ),
  );
  const look = async (): Promise<void> => {
    try {
      showQueues((await get<{ queues: QueueInfo[] }>("/v1/queues")).queues);
      showList((await get<{ placements: PlacementInfo[] }>("/v1/placements")).placements);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 0) {
        fill(list, h("p", { class: "problem" }, reasonOf(error)));
      }
    }
  };
  const stop = async (placement: string): Promise<void> => {
    if (
      await confirm({
        title: "Stop this placement?",
        text: id(placement),
        action: "Stop placement",
        isDangerous: true,
      })
    ) {
      await attempt(() => act("DELETE", path`/v1/placements/${placement}`), "The placement was stopped.");
      await look();
    }
  };
  return every(2, look);
};
