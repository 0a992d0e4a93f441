import { act, cleanup, render } from "@testing-library/preact";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { Problem } from "./api";
import { changed, concernOf, connectionAt, startLive, useReading } from "./live";
import { live } from "./settings";
import { heardAt, isHeard, type Movement } from "./stream";

let tell: (movement: Movement) => void = () => undefined;
vi.mock("./stream", async (original) => ({
  ...(await original<typeof import("./stream")>()),
  startStream: (_: unknown, told: (movement: Movement) => void) => void (tell = told),
}));

let asked: number[] = [];
let names: string[] = [];
let answer: () => Promise<string> = async () => "";

function Page(props: { name: string }) {
  const reading = useReading(
    props.name,
    async () => {
      asked.push(Date.now());
      names.push(props.name);
      return answer();
    },
    3_000,
  );
  return <p>{reading.data.value ?? "nothing"}</p>;
}

function hide(isHidden: boolean): void {
  Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}

// One clock for all tests: the rounds of one page after the other never lie in the future.
beforeAll(() => {
  vi.useFakeTimers();
  startLive();
});
afterAll(() => vi.useRealTimers());
beforeEach(() => {
  asked = [];
  names = [];
  answer = async () => "read";
});
afterEach(() => {
  cleanup();
  live.value = "on";
  isHeard.value = false;
  hide(false);
});

const pass = (ms: number) =>
  act(async () => {
    await vi.advanceTimersByTimeAsync(ms);
  });

it("a reading is read at once, and then again after a while", async () => {
  const page = render(<Page name="a" />);
  await pass(300);
  expect(page.container.textContent).toBe("read");
  await pass(6_100);
  expect(asked.length).toBe(3);
});

it("however often something changes, there are four rounds in a second", async () => {
  render(<Page name="b" />);
  await pass(1_000);
  asked = [];
  for (let change = 0; change < 490; change += 1) {
    changed("b");
    await pass(2);
  }
  expect(asked.length).toBeLessThanOrEqual(4);
  expect(asked.length).toBeGreaterThanOrEqual(3);
});

it("a page that is hidden or paused reads nothing, and reads at once when it is seen again", async () => {
  render(<Page name="c" />);
  await pass(500);
  hide(true);
  asked = [];
  await pass(60_000);
  expect(asked).toEqual([]);
  hide(false);
  await pass(300);
  expect(asked.length).toBe(1);

  live.value = "off";
  await pass(60_000);
  expect(asked.length).toBe(1);
  expect(connectionAt(Date.now()).state).toBe("paused");
});

it("data stays when the server is lost, and its age is known", async () => {
  const page = render(<Page name="d" />);
  await pass(500);
  answer = () => Promise.reject(new Problem({ status: 0, title: "gone" }));
  await pass(34_000);

  expect(page.container.textContent).toBe("read");
  const { state, age } = connectionAt(Date.now());
  expect([state, age >= 30_000]).toEqual(["stale", true]);
  // It is asked less and less often, but at least every ten seconds.
  expect(asked.length).toBeLessThan(12);
  answer = async () => "read again";
  await pass(10_500);
  expect(page.container.textContent).toBe("read again");
  expect(connectionAt(Date.now()).state).toBe("live");
});

it("what is told is read again, the rest is not, and a list at most once a second", async () => {
  const moved = (run_id: string, key: string | null = null) => tell({ runs: [{ run_id, key } as Movement["runs"][0]], isWhole: true });
  isHeard.value = true;
  heardAt.value = Date.now();
  render(
    <>
      <Page name="run r-1" />
      <Page name="runs of all" />
      <Page name="settings" />
    </>,
  );
  await pass(1_500);
  const read = () => {
    const found = names.filter((name) => name !== "settings").sort();
    names = [];
    return found;
  };
  expect(read()).toEqual(["run r-1", "runs of all"]);
  moved("r-2", "k");
  await pass(1_100);
  expect(read()).toEqual(["runs of all"]);
  moved("r-1");
  await pass(1_100);
  expect(read()).toEqual(["run r-1", "runs of all"]);
  for (let change = 0; change < 100; change += 1) {
    moved("r-2");
    await pass(20);
  }
  expect([2, 3]).toContain(read().length);
  await pass(1_100);
  read();
  tell({ runs: [], isWhole: false });
  await pass(1_100);
  expect(read()).toEqual(["run r-1", "runs of all"]);
});

it("what is told is known to be new, and is read as often as before when the stream is lost", async () => {
  isHeard.value = true;
  render(<Page name="runs e" />);
  await pass(10_000);
  heardAt.value = Date.now();
  expect([asked.length, connectionAt(Date.now()).age]).toEqual([1, 0]);
  isHeard.value = false;
  await pass(3_500);
  expect(asked.length).toBeGreaterThanOrEqual(2);
});

it("a key tells what a reading is about", () => {
  expect([concernOf("run r-1 tree"), concernOf("runs q"), concernOf("workflows"), concernOf("run-row r-2")]).toEqual([
    { run: "r-1" }, "runs", "nothing", { run: "r-2" },
  ]);
});
