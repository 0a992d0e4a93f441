// The command palette: one box for runs, acts and pages. And the sheet of all keys.

import { signal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { useEffect, useRef, useState } from "preact/hooks";
import { begin, commandOf, mayDo, type Offer, pageOffers } from "../acts";
import { read, type Run } from "../api";
import { type Key, type KeyPlace, keyTable, useKeys } from "../keys";
import { to, toRun } from "../place";
import { type Page, pages } from "../routes";
import { may } from "../session";
import { letterKeys } from "../settings";
import { looks, shownOf, wordOf } from "../statuses";
import { words } from "../words";
import { Dialog, DialogHead } from "./dialog";
import { Icon } from "./icon";
import type { IconName } from "./sprite";
import { Time } from "./time";

export const isPaletteOpen = signal(false);
export const isSheetOpen = signal(false);
/** What the box of the palette begins with. */
const beginsWith = signal("");

const RUNS_MAX = 6;
const PAUSE_MS = 120;

interface Option {
  key: string;
  group: string;
  icon: IconName;
  name: string;
  isCode?: boolean;
  note?: string;
  end?: preact.ComponentChildren;
  choose: () => void;
}

/** The palette, the key sheet, and the keys that open them and go to pages. */
export function Overlays() {
  const { route } = useLocation();
  const go = pages.filter((page) => page.key && (!page.permission || may(page.permission)));
  const open = (text: string) => {
    beginsWith.value = text;
    isPaletteOpen.value = true;
  };
  useKeys({
    "/": () => open(""),
    "mod+k": () => open(""),
    ".": () => open(">"),
    "?": () => (isSheetOpen.value = true),
    y: () => void navigator.clipboard?.writeText(location.href),
    ...Object.fromEntries(go.map((page) => [`g ${page.key}`, () => route(to(page.path))])),
  });
  return (
    <>
      {isPaletteOpen.value && <Palette />}
      {isSheetOpen.value && <KeySheet />}
    </>
  );
}

function Palette() {
  const { route } = useLocation();
  const [text, setText] = useState(beginsWith.peek());
  const [at, setAt] = useState(0);
  const [runs, setRuns] = useState<Run[]>([]);
  const list = useRef<HTMLDivElement>(null);
  const kind = text[0] === ">" || text[0] === "#" ? text[0] : "";
  const wanted = text.slice(kind.length).trim();
  useEffect(() => {
    const own = new AbortController();
    if (kind === ">") {
      setRuns([]);
      return;
    }
    const timer = setTimeout(() => {
      const q = wanted ? `"${wanted.replace(/["\\]/g, "\\$&").slice(0, 200)}"` : "";
      read("/api/runs", { query: { q, limit: RUNS_MAX }, signal: own.signal }).then(
        (page) => setRuns(page.runs),
        () => undefined,
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      own.abort();
    };
  }, [wanted, kind]);
  useEffect(() => setAt(0), [text]);
  const close = () => (isPaletteOpen.value = false);
  const visit = (path: string) => {
    close();
    route(path);
  };
  const options = [
    ...(kind === ">" ? [] : runs.map((run) => runOption(run, visit))),
    ...(kind === "#" ? [] : actOptions(pageOffers.value.filter(mayDo), wanted, close)),
    ...(kind ? [] : pageOptions(wanted, visit)),
    ...(kind === ">" || !wanted ? [] : [searchOption(wanted, visit)]),
  ];
  const chosen = Math.min(at, options.length - 1);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((chosen + step + options.length) % Math.max(1, options.length));
    else if (event.key === "Enter") options[chosen]?.choose();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog class="palette" label={words.palette.title} onClose={close}>
      <div class="pal-in">
        <Icon name="search" />
        <input
          value={text}
          autofocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={options[chosen] ? `palette-${chosen}` : undefined}
          aria-label={words.palette.title}
          placeholder={words.palette.hint}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={pressed}
        />
        <kbd>esc</kbd>
      </div>
      <div class="pal-list" id="palette-list" role="listbox" aria-label={words.palette.results} ref={list}>
        {options.map((one, number) => (
          <>
            {one.group !== options[number - 1]?.group && (
              <div class="grp" role="presentation" key={`group ${one.group}`}>
                {one.group}
              </div>
            )}
            <div
              key={one.key}
              id={`palette-${number}`}
              role="option"
              aria-selected={number === chosen}
              onMouseMove={() => setAt(number)}
              onClick={one.choose}
            >
              <Icon name={one.icon} />
              <span class={one.isCode ? "mono ell" : "ell"}>
                <bdi>{one.name}</bdi>
              </span>
              <span class="nt">{one.note}</span>
              <span class="en">{one.end}</span>
            </div>
          </>
        ))}
        {options.length === 0 && <p class="none">{words.palette.nothing}</p>}
      </div>
      <footer class="pal-foot">
        <span>
          <kbd>↑</kbd>
          <kbd>↓</kbd> {words.palette.move}
        </span>
        <span>
          <kbd>↵</kbd> {words.palette.choose}
        </span>
        <span class="end">
          <kbd>&gt;</kbd> {words.palette.actsOnly}
        </span>
        <span>
          <kbd>#</kbd> {words.palette.runsOnly}
        </span>
      </footer>
    </Dialog>
  );
}

function runOption(run: Run, visit: (path: string) => void): Option {
  return {
    key: run.run_id,
    group: words.palette.runs,
    icon: looks[shownOf(run)].icon,
    name: run.key ?? run.run_id,
    isCode: true,
    note: `${wordOf(run)} · ${run.workflow}`,
    end: <Time at={run.started_at ?? run.created_at} />,
    choose: () => visit(toRun(run.run_id)),
  };
}

function actOptions(offers: Offer[], wanted: string, close: () => void): Option[] {
  return offers
    .filter((one) => one.act.label.toLowerCase().includes(wanted.toLowerCase()))
    .map((one) => ({
      key: `act ${one.act.name}`,
      group: words.palette.acts,
      icon: "play",
      name: one.act.label,
      end: <code>{commandOf(one)}</code>,
      choose: () => {
        close();
        void begin(one);
      },
    }));
}

function pageOptions(wanted: string, visit: (path: string) => void): Option[] {
  return pages
    .filter((page) => page.nav && (!page.permission || may(page.permission)))
    .filter((page) => page.nav?.label.toLowerCase().includes(wanted.toLowerCase()))
    .map((page: Page) => ({
      key: `page ${page.path}`,
      group: words.palette.pages,
      icon: page.nav?.icon ?? "right",
      name: page.nav?.label ?? "",
      end: page.key && letterKeys.value === "on" && <Keys names={[`g ${page.key}`]} />,
      choose: () => visit(to(page.path)),
    }));
}

function searchOption(wanted: string, visit: (path: string) => void): Option {
  const q = /^[\w.-]+$/.test(wanted) ? wanted : `"${wanted.replace(/["\\]/g, "\\$&")}"`;
  return {
    key: "search",
    group: words.palette.also,
    icon: "runs",
    name: words.palette.search(wanted),
    note: words.palette.searched,
    choose: () => visit(to("runs", { q })),
  };
}

const SIGNS: Record<string, string> = {
  ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Enter: "↵", Escape: "esc", Home: "home", End: "end",
};

/** Keys as they stand on the keyboard. */
function Keys(props: { names: string[] }) {
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  return (
    <>
      {props.names.map((name, number) => (
        <>
          {number > 0 && " "}
          {(name === "mod+k" ? [isMac ? "⌘" : "Ctrl", "K"] : name.split(" ")).map((key) => (
            <kbd key={key}>{SIGNS[key] ?? key}</kbd>
          ))}
        </>
      ))}
    </>
  );
}

function KeySheet() {
  const close = () => (isSheetOpen.value = false);
  const columns: KeyPlace[][] = [["everywhere"], ["go", "list"], ["run", "tree"]];
  const go: Key[] = pages
    .filter((page) => page.key && (!page.permission || may(page.permission)))
    .map((page) => ({ place: "go", keys: [`g ${page.key}`], word: page.nav?.label ?? "" }));
  const all = [...keyTable, ...go];
  return (
    <Dialog class="keys-sheet" label={words.keys.title} onClose={close}>
      <DialogHead
        title={words.keys.title}
        onClose={close}
        text={
          <label class="choice">
            <input
              type="checkbox"
              checked={letterKeys.value === "on"}
              onChange={(event) => (letterKeys.value = event.currentTarget.checked ? "on" : "off")}
            />
            <span>{words.keys.letters}</span>
          </label>
        }
      />
      <div class="keys-cols">
        {columns.map((places) => (
          <div key={places.join()}>
            {places.map((place) => (
              <>
                <h3>{words.keys.places[place]}</h3>
                <dl>
                  {all
                    .filter((key) => key.place === place)
                    .map((key) => (
                      <div key={key.word}>
                        <dt>
                          <Keys names={key.keys} />
                        </dt>
                        <dd>{key.word}</dd>
                      </div>
                    ))}
                </dl>
              </>
            ))}
          </div>
        ))}
      </div>
    </Dialog>
  );
}
