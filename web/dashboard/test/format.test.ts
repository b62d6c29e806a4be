import { describe, expect, it } from "vitest";
import { counted } from "../src/ui/format";

describe("counts", () => {
  it("agree with their nouns", () => {
    expect([0, 1, 2, 1234].map((each) => counted(each, "message"))).toEqual([
      "0 messages",
      "1 message",
      "2 messages",
      "1,234 messages",
    ]);
  });
});
