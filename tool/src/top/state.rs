//! What the person at the live view has chosen, and what each key does.
//! SPDX-License-Identifier: BSD-2-Clause

use super::rows::{Grouping, Order, Row};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

const INTERVALS: [u64; 7] = [100, 200, 500, 1000, 2000, 5000, 10000];
const PAGE: usize = 10;

pub struct State {
    pub grouping: Grouping,
    pub order: Order,
    pub search: String,
    /// Letters go into the search.
    pub is_searching: bool,
    pub is_paused: bool,
    pub has_help: bool,
    /// The selected row's detail is shown.
    pub has_detail: bool,
    pub selected: usize,
    pub interval: Duration,
    /// Said until the next key.
    pub message: Option<String>,
}

/// What a key asks for that the state cannot do itself.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    None,
    Quit,
    LookNow,
    CountAnew,
    SwitchProfile,
    Stop,
}

pub const KEYS: [(&str, &str); 13] = [
    ("1 … 5, Tab", "call sites, threads, size classes, arenas, object caches"),
    ("g l r n", "sort by growth, live bytes, rate, name"),
    (
        "/",
        "show only what has these words in its name; Enter keeps, Esc forgets them",
    ),
    ("↑ ↓ PgUp PgDn", "select a row (also k and j)"),
    ("Enter", "its stack, or its other figures"),
    ("p, space", "pause, and go on"),
    ("z", "count growth from now on"),
    ("+ -", "look more often, less often"),
    ("P", "switch the process's heap profile on or off"),
    ("u", "look now"),
    ("h, ?", "this help"),
    ("Ctrl-Z", "stop; the shell's fg goes on"),
    ("q, Esc, Ctrl-C", "leave"),
];

impl State {
    pub fn new(grouping: Grouping, order: Order, interval: Duration) -> State {
        State {
            grouping,
            order,
            search: String::new(),
            is_searching: false,
            is_paused: false,
            has_help: false,
            has_detail: false,
            selected: 0,
            interval,
            message: None,
        }
    }

    /// `rows`: how many are shown.
    pub fn press(&mut self, key: KeyEvent, rows: usize) -> Request {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return with_control(key.code);
        }
        if self.is_searching {
            self.type_search(key.code);
            return Request::None;
        }
        if self.has_help {
            self.has_help = false;
            return Request::None;
        }
        match key.code {
            KeyCode::Char('q') => return Request::Quit,
            KeyCode::Esc => return self.escape(),
            KeyCode::Char('u') => return Request::LookNow,
            KeyCode::Char('z') => return Request::CountAnew,
            KeyCode::Char('P') => return Request::SwitchProfile,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('h' | '?') => self.has_help = true,
            KeyCode::Char('/') => self.is_searching = true,
            KeyCode::Enter => self.has_detail = !self.has_detail,
            KeyCode::Char('g') => self.order = Order::Growth,
            KeyCode::Char('l') => self.order = Order::Live,
            KeyCode::Char('r') => self.order = Order::Rate,
            KeyCode::Char('n') => self.order = Order::Name,
            KeyCode::Char('+') => self.change_interval(true),
            KeyCode::Char('-') => self.change_interval(false),
            KeyCode::Tab => self.group(self.number() + 1),
            KeyCode::BackTab => self.group(self.number() + Grouping::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => self.group(digit as usize - '1' as usize),
            other => self.move_to(other, rows),
        }
        Request::None
    }

    /// One thing at a time, and at last the way out.
    fn escape(&mut self) -> Request {
        if self.has_detail {
            self.has_detail = false;
        } else if !self.search.is_empty() {
            self.search.clear();
        } else {
            return Request::Quit;
        }
        Request::None
    }

    fn number(&self) -> usize {
        Grouping::ALL
            .iter()
            .position(|grouping| *grouping == self.grouping)
            .unwrap_or(0)
    }

    fn group(&mut self, number: usize) {
        self.grouping = Grouping::ALL[number % Grouping::ALL.len()];
        self.selected = 0;
    }

    fn move_to(&mut self, key: KeyCode, rows: usize) {
        let last = rows.saturating_sub(1);
        self.selected = match key {
            KeyCode::Up | KeyCode::Char('k') => self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected + 1,
            KeyCode::PageUp => self.selected.saturating_sub(PAGE),
            KeyCode::PageDown => self.selected + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.selected,
        }
        .min(last);
    }

    fn type_search(&mut self, key: KeyCode) {
        match key {
            KeyCode::Esc => {
                self.search.clear();
                self.is_searching = false;
            }
            KeyCode::Enter => self.is_searching = false,
            KeyCode::Backspace => {
                self.search.pop();
            }
            KeyCode::Char(letter) => self.search.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn change_interval(&mut self, more_often: bool) {
        let now = self.interval.as_millis() as u64;
        let next = match more_often {
            true => INTERVALS.iter().rev().find(|interval| **interval < now),
            false => INTERVALS.iter().find(|interval| **interval > now),
        };
        self.interval = Duration::from_millis(*next.unwrap_or(&now));
    }

    /// Those that the search leaves.
    pub fn shown(&self, rows: Vec<Row>) -> Vec<Row> {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let has_all = |row: &Row| {
            let text = format!("{}\n{}", row.name, row.detail.join("\n")).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        rows.into_iter().filter(has_all).collect()
    }
}

/// What the terminal would do itself, were it not for the view; no other letter is meant then.
fn with_control(key: KeyCode) -> Request {
    match key {
        KeyCode::Char('c') => Request::Quit,
        KeyCode::Char('z') => Request::Stop,
        _ => Request::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(state: &mut State, keys: &str) -> Request {
        let mut last = Request::None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                other => KeyCode::Char(other),
            };
            last = state.press(KeyEvent::new(code, KeyModifiers::NONE), 3);
        }
        last
    }

    fn state() -> State {
        State::new(Grouping::Sites, Order::Growth, Duration::from_secs(1))
    }

    #[test]
    fn keys_choose() {
        let mut state = state();
        press(&mut state, "3ljjjjj");
        assert_eq!(
            (state.grouping, state.order, state.selected),
            (Grouping::Classes, Order::Live, 2)
        );
        press(&mut state, "\t\t\t");
        assert_eq!((state.grouping, state.selected), (Grouping::Sites, 0));
        press(&mut state, "p+");
        assert!(state.is_paused && state.interval == Duration::from_millis(500));
        press(&mut state, "?q");
        assert!(!state.has_help);
        assert_eq!(press(&mut state, "q"), Request::Quit);
        assert_eq!(press(&mut state, "z"), Request::CountAnew);
    }

    #[test]
    fn letters_with_control_are_others() {
        let mut state = state();
        let mut press = |letter| state.press(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL), 3);
        assert_eq!([press('c'), press('z')], [Request::Quit, Request::Stop]);
        assert_eq!([press('q'), press('u'), press('l')], [const { Request::None }; 3]);
        assert_eq!(state.order, Order::Growth);
        state.is_searching = true;
        state.press(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL), 3);
        assert_eq!(state.search, "");
    }

    #[test]
    fn while_one_searches_letters_are_letters() {
        let mut state = state();
        press(&mut state, "/quit");
        assert_eq!((state.search.as_str(), state.is_searching), ("quit", true));
        press(&mut state, "\n");
        assert!(!state.is_searching);
        assert_eq!(press(&mut state, "\x1b"), Request::None);
        assert_eq!(state.search, "");
        assert_eq!(press(&mut state, "\x1b"), Request::Quit);
    }
}
