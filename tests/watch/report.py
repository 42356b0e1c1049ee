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
  mouse('timeline', 'mousemove', .9, .5); seen.time = text('time-told');
  const whole = print('map');
  for (const y of [.4, .2, .6, .1, .3, .5, .7, .8, .9]) { // where something lives differs from run to run
    mouse('map', 'mousedown', .97, y); mouse('map', 'mouseup', .97, y); seen.place = text('map-told');
    if (seen.place.includes('mostly')) break;
  }
  mouse('map', 'mousedown', .02, .02); mouse('map', 'mousemove', .98, .98); mouse('map', 'mouseup', .98, .98);
  seen.zoomed = print('map') !== whole;
  const zoomed = print('map'); key('map', '2'); seen.aged = print('map') !== zoomed; key('map', '1');
  key('map', 'ArrowRight'); seen.moved = print('map') !== zoomed; key('map', 'Escape');
  mouse('flame', 'mousemove', .3, .1); seen.all = text('flame-told');
  const flame = print('flame');
  document.getElementById('search').value = 'site_large'; document.getElementById('search').dispatchEvent(new Event('input'));
  seen.found = text('found'); seen.searched = print('flame') !== flame;
  document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'));
  key('flame', 'ArrowDown'); key('flame', 'ArrowDown'); seen.inner = text('flame-told');
  key('flame', 'Escape'); seen.back = print('flame') === flame;
  document.getElementById('measure').value = '1'; document.getElementById('measure').dispatchEvent(new Event('change'));
  mouse('flame', 'mousemove', .3, .1); seen.objects = text('flame-told');
  const result = document.createElement('pre'); result.id = 'seen'; result.textContent = JSON.stringify(seen); document.body.append(result);
})();
</script></body>"""


def find_browser():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def browse(browser, folder, page, *options):
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,1900",
                           f"--user-data-dir={folder}/browser", "--virtual-time-budget=10000", *options, f"file://{page}"],
                          capture_output=True, text=True, timeout=1000)


def look(browser, folder, page):
    path = os.path.join(folder, "read.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.replace("</body>", READER))
    dom = browse(browser, folder, path, "--dump-dom").stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(found.group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def main(vmag, library, sites, screenshot=None):
    if not os.path.exists(vmag):
        print(f"SKIPPED: {vmag} is not built (make tool)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        trace, profile, report = (os.path.join(folder, name) for name in ("t.trace", "p.heap", "r.html"))
        subprocess.run([vmag, "run", "--quiet", "--lib", library, f"--trace={trace}", f"--profile={profile}", "--sample-bytes=16384",
                        "--callers=frames", "--", sites, "large"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([vmag, "report", "--trace", trace, "--profile", profile, "--title", "Sites <of> a test", "-o", report], check=True)
        page = open(report, encoding="utf-8").read()
        assert len(page) < MOST_BYTES and "Sites &lt;of&gt; a test" in page
        assert "site_large" in page and not re.search(r"""(src|href)=["']?(https?:)?//""", page)
        print(f"{len(page)} bytes")
        browser = find_browser()
        if browser is None:
            print("SKIPPED: no chromium, the page was not opened")
            sys.exit(SKIPPED)
        seen = look(browser, folder, page)
        print(json.dumps(seen, indent=1, ensure_ascii=False))
        assert seen["trouble"] == ""
        assert re.search(r"s: \d.* live, \d", seen["time"])
        assert "% in use" in seen["place"] and "mostly objects of" in seen["place"]
        assert seen["zoomed"] and seen["aged"] and seen["moved"] and seen["searched"] and seen["back"]
        assert seen["all"].startswith("all") or "% of all" in seen["all"]
        assert float(seen["found"].split(" ")[0]) > 70
        assert "objects" in seen["objects"]
        if screenshot:
            browse(browser, folder, report, f"--screenshot={screenshot}")


main(*sys.argv[1:])
