# The report on a phone: nothing is wider than the screen, fingers do what the mouse does, and the page still scrolls.
# SPDX-License-Identifier: BSD-2-Clause
from phone import Phone

LEAST_BUTTON, LEAST_TEXT, LEAST_COLUMN = 32, 12, 60  # CSS pixels
ROW = 24  # of the flame graph, so that a finger meets it
STOREYS = 200  # of the tower
MOST_PIXELS = 1 << 24  # of a canvas, on an iPhone
MOST_TOLD = 160  # CSS pixels, of what is told below a picture

PICTURE = """(() => { const c = document.getElementById('%s'), p = c.getContext('2d').getImageData(0, 0, c.width, Math.min(c.height, 1200)).data;
  let h = 0; for (let i = 0; i < p.length; i += 4) h = (h * 31 + p[i] + p[i + 1] * 3 + p[i + 2] * 7) >>> 0; return h; })()"""
LIVED_IN = """(() => { const c = document.getElementById('map'), b = c.getBoundingClientRect();
  for (const x of [.97, .995]) for (let y = .02; y < .8; y += .02) {
    const place = { clientX: b.left + x * b.width, clientY: b.top + y * b.height }; c.dispatchEvent(new MouseEvent('mousemove', place));
    if (document.getElementById('map-told').textContent.match(/most by (?!others)/)) return [place.clientX, place.clientY]; } })()"""
# What is there of a kind, on the screen or not: [whose, how much].
LOW = "[...document.querySelectorAll('button, select, input')].map(e => [e.id, e.offsetHeight]).filter(e => e[1])"
SMALL = "[...document.querySelectorAll('body *')].filter(e => e.offsetWidth).map(e => [e.tagName, parseFloat(getComputedStyle(e).fontSize)])"
NARROW = "[...document.querySelectorAll('th:last-child')].map(e => [e.textContent, e.offsetWidth])"
LARGE = "[...document.querySelectorAll('canvas')].map(e => [e.id, e.width * e.height])"
OUTSIDE = """[...document.querySelectorAll('section')].flatMap(s => [...s.querySelectorAll('button, select, input, canvas, .wide, .told')]
  .filter(e => e.getBoundingClientRect().right > s.getBoundingClientRect().right).map(e => e.id || e.className))"""


def is_seen(phone, name):
    """It is on the screen, and nothing is before it."""
    return phone.value(f"(() => {{ const e = document.getElementById('{name}'), b = e.getBoundingClientRect(); "
                       "return e.contains(document.elementFromPoint(b.left + 9, b.top + b.height / 2)); })()")


def changes(phone, name, action):
    """What an action does: whether a picture is another, and how far the page scrolled."""
    before, top = phone.value(PICTURE % name), phone.value("scrollY")
    phone.persist(action, lambda: (phone.value(PICTURE % name), phone.value("scrollY")) != (before, top))
    return phone.value(PICTURE % name) != before, phone.value("scrollY") - top


def tap(phone, button, name):
    """Whether a button makes a picture another."""
    left, top, width, height = phone.box(button)
    return changes(phone, name, lambda: phone.touch([(left + width / 2, top + height / 2)]))[0]


def check_layout(phone, width):
    assert phone.value("innerWidth") == phone.value("document.documentElement.scrollWidth") == width
    assert not (outside := phone.value(OUTSIDE)), outside
    for kind, least in ((LOW, LEAST_BUTTON), (SMALL, LEAST_TEXT), (NARROW, LEAST_COLUMN)):
        found = phone.value(kind)
        assert found and not (less := [one for one in found if one[1] < least]), less
    # What is told of a function with the longest of names leaves room for the picture.
    told = phone.value("""['time-told', 'map-told', 'flame-told'].map(id => { const e = document.getElementById(id), was = e.textContent;
      e.textContent = 'name<of, a, template>'.repeat(200); const tall = [id, e.parentElement.offsetWidth && e.offsetHeight]; e.textContent = was; return tall; })""")
    assert not (tall := [one for one in told if one[1] > MOST_TOLD]), tall
    assert not (large := [one for one in phone.value(LARGE) if one[1] > MOST_PIXELS]), large


def check_time(phone):
    left, top, width, height = phone.box("timeline")
    middle, right = (left + width * 0.5, top + height / 2), (left + width * 0.9, top + height / 2)
    assert changes(phone, "timeline", lambda: phone.touch([middle])) == (True, 0)
    assert " live, " in phone.text("time-told")
    assert changes(phone, "timeline", lambda: phone.touch([middle, right])) == (True, 0)


def check_map(phone):
    left, top, width, height = phone.box("map")
    assert height < 0.7 * phone.value("innerHeight"), height
    place = phone.value(LIVED_IN)
    phone.value("document.getElementById('map-told').textContent = ''")
    phone.persist(lambda: phone.touch([place]), lambda: "% of it" in phone.text("who-lives"))
    assert "most by" in phone.text("map-told") and "% of it" in phone.text("who-lives"), phone.text("map-told")
    assert is_seen(phone, "map-told")

    assert all(tap(phone, button, "map") for button in ("map-in", "map-back", "map-in", "map-out"))
    left, top, width, height = phone.box("map")
    x, y, apart, up = left + width / 2, top + height * 0.6, 30, min(90, height * 0.4)
    assert changes(phone, "map", lambda: phone.touch([(x, y)])) == (True, 0)  # its cross shows every move
    gestures = {"pinch": ([(x - apart, y), (x - 3 * apart, y)], [(x + apart, y), (x + 3 * apart, y)]), "sideways": ([(x, y), (x - 60, y)],),
                "two fingers up": ([(x - apart, y), (x - apart, y - up)], [(x + apart, y), (x + apart, y - up)])}
    for name, ways in gestures.items():
        assert changes(phone, "map", lambda ways=ways: phone.touch(*ways)) == (True, 0), name
    moved, scrolled = changes(phone, "map", lambda: phone.touch([(x, y), (x, y - up)]))
    assert scrolled > 20 and not moved, (moved, scrolled)


def check_flame(phone):
    """A tap tells at once, however long the page is, and what was tapped becomes the whole width."""
    left, top, width, height = phone.box("flame")
    assert height > ROW * STOREYS, height
    assert changes(phone, "flame", lambda: phone.touch([(left + width * 0.6, top + ROW * 5.5)])) == (True, 0)
    assert "90.0 % of all" in phone.text("flame-told") and is_seen(phone, "flame-told")
    assert is_seen(phone, "flame-out") and tap(phone, "flame-out", "flame")


def check_phone(browser, folder, page, tower):
    with Phone(browser, folder) as phone:
        for width, height in ((360, 640), (640, 360)):
            phone.open(page, width, height)
            check_layout(phone, width)
            check_time(phone)
            check_map(phone)
            phone.open(tower, width, height)
            check_layout(phone, width)
            check_flame(phone)
