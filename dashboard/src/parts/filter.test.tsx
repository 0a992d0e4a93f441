import { cleanup, fireEvent, render, screen } from "@testing-library/preact";
import { afterEach, describe, expect, it } from "vitest";
import { Problem } from "../api";
import { FilterBox, suggest, termsOf } from "./filter";

afterEach(cleanup);

describe("the parts of a filter", () => {
  it("are parted by blanks outside of quotes", () => {
    const found = termsOf('-workflow:test* key:"A 17" word "two words" input.customer.id:42');

    expect(found.map((term) => [term.isNegated, term.field, term.value])).toEqual([
      [true, "workflow:", "test*"],
      [false, "key:", '"A 17"'],
      [false, "", "word"],
      [false, "", '"two words"'],
      [false, "input.customer.id:", "42"],
    ]);
  });

  it("are suggested: fields, and the values of some", () => {
    expect(suggest("stat", []).map((one) => one.text)).toEqual(["status:"]);
    expect(suggest("-status:fa", []).map((one) => one.text)).toEqual(["-status:failed"]);
    expect(suggest("status:failed,pa", []).map((one) => one.text)).toEqual(["status:failed,paused"]);
    expect(suggest("workflow:o", ["order", "import"]).map((one) => one.text)).toEqual(["workflow:order"]);
    expect(suggest("", [])).toEqual([]);
  });
});

describe("the filter box", () => {
  const show = (filter: string, problem?: Problem) => {
    const said: string[] = [];
    render(<FilterBox filter={filter} onChange={(text) => said.push(text)} workflows={[]} problem={problem} count="" />);
    return { said, box: screen.getByRole("combobox") as HTMLInputElement };
  };

  it("adds what is typed, and gives the last chip back to be changed", () => {
    const { said, box } = show("status:failed since:24h");
    fireEvent.input(box, { target: { value: "took:>30s" } });
    fireEvent.keyDown(box, { key: "Enter" });
    fireEvent.keyDown(box, { key: "Backspace" });

    expect(said).toEqual(["status:failed since:24h took:>30s", "status:failed"]);
    expect(box.value).toBe("since:24h");
  });

  it("marks the part that the server points at", () => {
    show("workflow:order statsu:failed", new Problem({ status: 400, title: "no such field", where: "character 16 of the filter: statsu:failed" }));

    expect(document.querySelector(".chip.wrong")?.textContent).toBe("statsu:failed");
    expect(screen.getByRole("alert").textContent).toContain("no such field");
  });
});
