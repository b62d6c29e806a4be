// Made by `holdfast types arena.py`; do not edit. Make it again when the game's messages change.

/** To a player who joins: the ship, its name, and the number of the latest view. */
export interface Launched {
  ship: string;
  name: string;
  view: number;
}

/** One ship as all players see it, with the count of its commands, so that its player can compare. */
export interface Ship {
  name: string;
  place: [number, number];
  coins: number;
  is_here: boolean;
  steered: Tally;
}

/** From a player: move a ship. Numbered, so that the room notices a missing or duplicate command. */
export interface Steer {
  number: number;
  ship: string;
  dx: number;
  dy: number;
}

/** Counts numbered messages as they arrive, and those that are missing or come twice. */
export interface Tally {
  last: number;
  lost: number;
  doubled: number;
}

/** To every player, at every tick. Numbered like the commands. */
export interface View {
  number: number;
  ships: Record<string, Ship>;
  coins: [number, number][];
}

/** Rooms of the kind "arena". */
export interface ArenaMessages {
  toServer: {
    steer: Steer;
  };
  toClient: {
    launched: Launched;
    view: View;
  };
  version: typeof arenaVersion;
}

/** Version 696119f9 of these messages: give it when you create and join rooms. */
export const arenaVersion = "696119f9.0cK14QWv6NSN7WLU7n7iB-PeDUAADsRaFw7FJUqXJyoHKsQAN1g_NDATO092RIrtSLINU5tsX2FZXohg_C9W_xPPa2VBf2JDfVO4fzAnhMeehgbjiELgkipUv-VrwiYUyiTH";
