# The HTML report in a real browser: pictures are drawn, clicks and keys are answered, nothing is fetched, nothing fails.
# `report.py VMAG LIBRARY SITES [SCREENSHOT]`.  The page is opened headless with a script behind it that does what a
# reader would do and leaves what it saw in the page.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from report_phone import STOREYS, check_phone

SKIPPED = 77
MOST_BYTES = 5_000_000

READER = """<script>
(async () => {
  const wait = ms => new Promise(done => setTimeout(done, ms)), seen = {};
  for (let i = 0; i < 100 && document.documentElement.dataset.ready !== 'yes'; i++) await wait(20);
  const text = id => document.getElementById(id).textContent, canvas = id => document.getElementById(id);
  const mouse = (id, kind, x, y) => { const b = canvas(id).getBoundingClientRect();
    canvas(id).dispatchEvent(new MouseEvent(kind, { clientX: b.left + x * b.width, clientY: b.top + y * b.height, bubbles: true })); };
  const key = (id, key) => canvas(id).dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  const print = id => { const c = canvas(id), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let h = 0; for (let i = 0; i < p.length; i += 4) h = (h * 31 + p[i] + p[i + 1] * 3 + p[i + 2] * 7) >>> 0; return h; };
  seen.trouble = text('trouble');
  mouse('timeline', 'pointermove', .9, .5); seen.time = text('time-told');
  mouse('timeline', 'pointermove', .0005, .5); mouse('map', 'mousedown', .0005, .5); mouse('map', 'mouseup', .0005, .5);
  seen.ends = [text('time-told'), text('map-told'), document.querySelector('#who-lives h3').textContent];
  seen.modes = [...document.querySelectorAll('[data-mode]')].filter(b => !b.hidden).length;
  key('map', '1'); const whole = print('map');
  search: for (const x of [.97, .995]) for (let y = .02; y < 1; y += .04) { // where something lives differs from run to run
    mouse('map', 'mousedown', x, y); mouse('map', 'mouseup', x, y); seen.place = text('map-told');
    if (seen.place.includes('mostly')) break search;
  }
  seen.who = text('who-lives'); key('map', 'Escape');
  mouse('map', 'mousedown', .02, .02); mouse('map', 'mousemove', .98, .98); mouse('map', 'mouseup', .98, .98);
  seen.zoomed = print('map') !== whole;
  const zoomed = print('map'); key('map', '2'); seen.aged = print('map') !== zoomed; key('map', '1');
  key('map', '2'); seen.ages = text('legend'); key('map', '1'); key('map', 'ArrowRight'); seen.moved = print('map') !== zoomed; key('map', 'Escape');
  mouse('flame', 'mousemove', .3, .1); seen.all = text('flame-told');
  const flame = print('flame');
  document.getElementById('search').value = 'site_large'; document.getElementById('search').dispatchEvent(new Event('input'));
  seen.found = text('found'); seen.searched = print('flame') !== flame;
  document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'));
  key('flame', 'ArrowDown'); key('flame', 'ArrowDown'); seen.inner = text('flame-told');
  for (let i = 0; i < 20 && !seen.aside; i++) { const here = text('flame-told'); key('flame', 'ArrowRight');
    if (text('flame-told') !== here) { key('flame', 'ArrowLeft'); seen.aside = text('flame-told') === here; } else key('flame', 'ArrowDown'); }
  key('flame', 'Escape'); seen.back = print('flame') === flame;
  document.getElementById('measure').value = '1'; document.getElementById('measure').dispatchEvent(new Event('change'));
  seen.counted = text('flame-told');
  mouse('flame', 'mousemove', .3, .1); seen.objects = text('flame-told');
  const light = print('timeline'); document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', ctrlKey: true, bubbles: true }));
  seen.bookmark = print('timeline') === light; document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true })); seen.dark = print('timeline') !== light;
  const bar = document.getElementById('ledger'); seen.ledger = bar ? bar.children.length : 0;
  const result = document.createElement('pre'); result.id = 'seen'; result.textContent = JSON.stringify(seen); document.body.append(result);
})();
</script></body>"""


def find_browser():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def browse(browser, folder, page, *options):
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,1900",
                           f"--user-data-dir={folder}/browser", "--virtual-time-budget=10000", *options, f"file://{page}"],
                          capture_output=True, text=True, timeout=1000)


def look(browser, folder, page, reader=READER):
    path = os.path.join(folder, "read.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.replace("</body>", reader))
    dom = browse(browser, folder, path, "--dump-dom").stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(found.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def report(vmag, folder, *sources):
    path = os.path.join(folder, "r.html")
    subprocess.run([vmag, "report", *sources, "--title", "Sites <of> a test", "-o", path], check=True)
    page = open(path, encoding="utf-8").read()
    assert len(page) < MOST_BYTES and "Sites &lt;of&gt; a test" in page
    assert "site_large" in page and not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "every resident byte" in page and "<noscript>" in page
    print(f"{len(page)} bytes")
    return path, page


def check_seen(seen):
    print(json.dumps(seen, indent=1, ensure_ascii=False))
    assert seen["trouble"] == ""
    assert re.search(r"s: \d.* live, \d", seen["time"])
    time, place, asked = seen["ends"]
    end = time.split(": ")[0]
    assert not time.startswith("0.0"), time
    assert place.startswith(end + ", ") and asked.endswith(" at " + end), seen["ends"]
    assert "% in use" in seen["place"] and "mostly objects of" in seen["place"]
    assert seen["zoomed"] and seen["aged"] and seen["moved"] and seen["searched"] and seen["back"] and seen["dark"] and seen["bookmark"]
    assert seen["all"].startswith("all") or "% of all" in seen["all"]
    assert float(seen["found"].split(" ")[0]) > 70
    assert seen["aside"], "left and right go nowhere"
    assert seen["ledger"] >= 2
    assert re.search(r"% of it(take|site_)", seen["who"]), seen["who"]
    assert re.fullmatch(r"new[\d.]+ (s|ms|µs|ns) old", seen["ages"]), seen["ages"]
    if seen["modes"] == 4:  # what a place holds is told whole
        shares = sum(int(part) for part in re.findall(r"(\d+) % (?:of it|by others)", seen["who"]))
        assert 97 <= shares <= 103, seen["who"]


def report_of(vmag, folder, name, *samples):
    """Of a profile of (bytes, addresses)."""
    profile, path = (os.path.join(folder, name + kind) for kind in (".heap", ".html"))
    with open(profile, "w") as file:
        stacks = "".join(f"@ {' '.join(map(hex, addresses))}\n" for _, addresses in samples)
        rows = "".join(f"{number} 1 0 1000 0 {held} {held}\n" for number, (held, _) in enumerate(samples, 1))
        file.write(f"heap_v2/1\n{stacks}\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=0 lost=0 pid=1 time=1\n{rows}")
    subprocess.run([vmag, "report", "--profile", profile, "-o", path], check=True)
    return path


SEARCHER = """<script>
(async () => {
  for (let i = 0; i < 100 && document.documentElement.dataset.ready !== 'yes'; i++) await new Promise(done => setTimeout(done, 20));
  const flame = document.getElementById('flame'), search = document.getElementById('search');
  const find = words => words.map(word => { search.value = word; search.dispatchEvent(new Event('input')); return document.getElementById('found').textContent; });
  const found = find(['al', '0x20', '0x10', '0x30']);
  for (let i = 0; i < 3; i++) flame.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
  const result = document.createElement('pre'); result.id = 'seen'; result.textContent = JSON.stringify([...found, ...find(['0x', '0x30'])]); document.body.append(result);
})();
</script></body>"""


def check_search(vmag, browser, folder):
    """Functions of a name that called each other are counted once, also the callers of what is seen; the root, "all", is none."""
    path = report_of(vmag, folder, "search", (600, [0x10, 0x20]), (400, [0x30, 0x20]))
    seen = look(browser, folder, open(path, encoding="utf-8").read(), SEARCHER)
    assert [float(found.split(" ")[0]) for found in seen] == [0, 100, 60, 40, 100, 0], seen


LEAST_CONTRAST = 4.5  # of text, by WCAG


def check_contrast(page):
    """What is written in a colour is read on the ground that it is written on, in light and in dark."""
    def light(colour):
        parts = (int(colour[at:at + 2], 16) / 255 for at in (0, 2, 4))
        return sum(part * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for part, c in zip((0.2126, 0.7152, 0.0722), parts))

    themes = re.findall(r":root\[data-theme=(\w+)\] \{(.*?)\}", page, re.DOTALL)
    assert [name for name, _ in themes] == ["light", "dark"]
    for name, colours in themes:
        of = {key: light(colour) for key, colour in re.findall(r"--([\w-]+): #([0-9a-f]{6})", colours)}
        for ink in ("ink", "soft", "live", "rate", "mark"):  # found functions are written in "box" on "mark"
            low, high = sorted((of[ink], of["box"]))
            assert (high + 0.05) / (low + 0.05) >= LEAST_CONTRAST, (name, ink)


# What is written into pictures is no text of the page.
LISTENER = """<head><script>window.written = []; const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) { written.push(text); fill.call(this, text, ...where); };</script>"""
WRITTEN = """<script>
(async () => {
  for (let i = 0; i < 100 && document.documentElement.dataset.ready !== 'yes'; i++) await new Promise(done => setTimeout(done, 20));
  const bar = document.getElementById('ledger'), of = e => [parseFloat(e.title.match(/([0-9.]+) %$/)[1]), 100 * e.offsetWidth / bar.offsetWidth];
  const seen = { written, ledger: [...bar.children].map(of), sizes: !!document.querySelector('.sizes') };
  const result = document.createElement('pre'); result.id = 'seen'; result.textContent = JSON.stringify(seen); document.body.append(result);
})();
</script></body>"""
TINY_SECONDS = 1e-5 * 800  # in 800 columns
TRIES = 5  # on a busy machine


def check_tiny(vmag, run, browser, folder, sites):
    """Of a trace of microseconds no rate a second is told, but what was counted, and in what time. Its process is next to nothing but libraries:
    in the ledger's bar, too."""
    trace, path = (os.path.join(folder, name) for name in ("tiny.trace", "tiny.html"))
    for _ in range(TRIES):
        subprocess.run([*run, f"--trace={trace}", "--trace-stacks", "--", sites, "resized"], check=True, stdout=subprocess.DEVNULL)
        figures = json.loads(subprocess.run([vmag, "trace", "--json", trace], check=True, capture_output=True).stdout)
        if figures["seconds"] < TINY_SECONDS:
            break
    subprocess.run([vmag, "report", trace, "-o", path], check=True)
    page = open(path, encoding="utf-8").read()
    seen = look(browser, folder, page.replace("<head>", LISTENER), WRITTEN)
    print(seen)
    assert f"<b>{figures['resizes']}</b><span>of the allocations resized in place</span>" in page
    most = max(figures["event_line"])
    rate = next(text for text in seen["written"] if text.endswith(" at most"))
    assert figures["seconds"] < TINY_SECONDS and re.fullmatch(rf"{most} events? in [1-9]\d*(\.\d+)? [nµ]s at most", rate), (figures["seconds"], rate)
    assert seen["sizes"] and len(seen["ledger"]) > 2
    # But for the lines between them, of a pixel each.
    assert not (wrong := [part for part in seen["ledger"] if abs(part[0] - part[1]) > 2]), wrong


def check_strangers(vmag, folder, trace, profile):
    """A profile of another process is told from one of the process that was traced."""
    path = os.path.join(folder, "stranger.html")
    other = os.path.join(folder, "stranger.heap")
    with open(other, "w", encoding="utf-8") as file:
        file.write(re.sub(r" pid=\d+", " pid=1", open(profile, encoding="utf-8").read()))
    for given, is_of_another in ((profile, False), (other, True)):
        said = subprocess.run([vmag, "report", trace, given, "-o", path], check=True, capture_output=True, text=True).stderr
        page = open(path, encoding="utf-8").read()
        assert ("not of the traced process" in said) == is_of_another, said
        assert ("not the traced one" in page) == is_of_another and " profile of process " in page


def check_towers(vmag, browser, folder):
    """A stack of a hundred functions that hold next to nothing does not make the page long."""
    path = report_of(vmag, folder, "sliver", (999, [0x10, 0x20]), (1, [*range(0x1000, 0x1064), 0x30]))
    height = int(re.search(r'<canvas id="flame"[^>]*height: (\d+)px', browse(browser, folder, path, "--dump-dom").stdout).group(1))
    print(f"flame graph of {height} pixels")
    assert height < 100, height


def main(vmag, library, sites, screenshot=None):
    if not os.path.exists(vmag):
        print(f"SKIPPED: {vmag} is not built (make tool)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        trace, stacks, profile = (os.path.join(folder, name) for name in ("t.trace", "s.trace", "p.heap"))
        run = [vmag, "run", "--quiet", "--lib", library, "--callers=frames"]
        subprocess.run([*run, f"--trace={trace}", f"--profile={profile}", "--sample-bytes=16384", "--", sites, "large"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([*run, f"--trace={stacks}", "--trace-stacks", "--", sites, "large"], check=True, stdout=subprocess.DEVNULL)
        browser = find_browser()
        path, sampled = report(vmag, folder, "--trace", trace, "--profile", profile)
        check_strangers(vmag, folder, trace, profile)
        path, traced = report(vmag, folder, "--trace", stacks)
        check_contrast(traced)
        if browser is None:
            print("SKIPPED: no chromium, the pages were not opened")
            sys.exit(SKIPPED)
        seen = look(browser, folder, sampled)
        check_seen(seen)
        assert seen["modes"] == 3 and "In the profile" in seen["who"] and "objects" in seen["objects"]
        assert seen["counted"].endswith(" objects, 100.0 % of all"), seen["counted"]
        seen = look(browser, folder, traced)
        check_seen(seen)
        assert seen["modes"] == 4 and "bytes" not in seen["objects"] and "site_" in seen["place"]
        check_tiny(vmag, run, browser, folder, sites)
        check_towers(vmag, browser, folder)
        check_search(vmag, browser, folder)
        tower = report_of(vmag, folder, "tower", (100, [0x10, 0x20]), (900, [*range(0x1000, 0x1000 + STOREYS), 0x30]))
        check_phone(browser, folder, path, tower)
        if screenshot:
            browse(browser, folder, path, f"--screenshot={screenshot}")


main(*sys.argv[1:])
