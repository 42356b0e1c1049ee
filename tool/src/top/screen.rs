//! The live view on the terminal.
//! SPDX-License-Identifier: BSD-2-Clause

use super::rows::{Grouping, Order, Row};
use super::state::{KEYS, State};
use super::watch::Watch;
use crate::output::figures::{bytes, count, counted};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table, TableState, Wrap};

const DETAIL_LINES: u16 = 10;
const CURVE_LINES: u16 = 3;

/// `rows`: what is to be shown, sorted; `end`: why nothing new comes any more.
pub fn draw(frame: &mut Frame, watch: &Watch, state: &State, rows: &[Row], end: Option<&str>) {
    let detail = if state.has_detail { DETAIL_LINES } else { 0 };
    let [head, curve, tabs, table, below, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(CURVE_LINES),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, watch, state, end);
    draw_curve(frame, curve, watch);
    draw_tabs(frame, tabs, state);
    draw_table(frame, table, watch, state, rows);
    if state.has_detail {
        draw_detail(frame, below, rows.get(state.selected));
    }
    draw_foot(frame, foot, state);
    if state.has_help {
        draw_help(frame);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Not where NO_COLOR asks for none: what leaves colours out behind us makes the terminal forget that the row is the selected one, too.
fn colored(color: Color) -> Style {
    match std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        true => Style::new().fg(color),
        false => Style::new(),
    }
}

fn draw_head(frame: &mut Frame, area: Rect, watch: &Watch, state: &State, end: Option<&str>) {
    let counters = &watch.last.counters;
    let title = format!("{} (process {})", watch.process.program, watch.process.pid);
    let paused = if state.is_paused { "  paused" } else { "" };
    let room = usize::from(area.width).saturating_sub(title.chars().count() + paused.len() + 2);
    let parts = [
        format!("{} resident", bytes(counters.process_resident.unwrap_or(0))),
        counted(u64::from(counters.threads), "thread"),
        format!("watched for {:.0} s", watch.seconds()),
        format!("every {:.1} s", state.interval.as_secs_f64()),
    ];
    let first = vec![
        Span::styled(title, bold()),
        Span::styled(paused, colored(Color::Yellow)),
        match end {
            Some(end) => Span::styled(format!("  {end}"), colored(Color::Red)),
            None => Span::raw(format!("  {}", fitting(&parts, room))),
        },
    ];
    let allocated = match counters.out_of_caches() {
        0 => format!("{} allocated", bytes(counters.allocated)),
        out => format!("{} allocated, {} of caches", bytes(counters.allocated), bytes(out)),
    };
    let parts = [
        allocated,
        profile_state(watch.process.sampling()),
        format!("{} active", bytes(counters.active)),
        format!("{} in magazines", bytes(counters.cached)),
        format!("{} dirty", bytes(counters.dirty)),
        format!("{} metadata", bytes(counters.metadata)),
    ];
    let second = fitting(&parts, area.width.into());
    frame.render_widget(Paragraph::new(vec![Line::from(first), Line::raw(second)]), area);
}

/// As many as there is room for, none of them cut.
fn fitting(parts: &[String], width: usize) -> String {
    let lines = (1..=parts.len()).rev().map(|count| parts[..count].join(", "));
    let mut that_fit = lines.filter(|line| line.chars().count() <= width);
    that_fit.next().unwrap_or_default()
}

fn profile_state(sampling: Option<(bool, u64)>) -> String {
    match sampling {
        Some((true, distance)) => format!("profile each {}", bytes(distance)),
        Some((false, _)) => "profile off".to_string(),
        None => "profile not known".to_string(), // it has ended
    }
}

/// From the least to the most that was allocated while we looked.
fn draw_curve(frame: &mut Frame, area: Rect, watch: &Watch) {
    let width = usize::from(area.width);
    let shown: Vec<u64> = watch.history.iter().rev().take(width).rev().copied().collect();
    let least = shown.iter().min().copied().unwrap_or(0);
    // Not to make a mountain of a molehill.
    let floor = least.saturating_sub(least / 20);
    let data: Vec<u64> = shown.iter().map(|value| value - floor).collect();
    frame.render_widget(Sparkline::default().data(&data).style(colored(Color::Cyan)), area);
}

fn draw_tabs(frame: &mut Frame, area: Rect, state: &State) {
    let mut spans = Vec::new();
    for (number, grouping) in Grouping::ALL.into_iter().enumerate() {
        let style = if grouping == state.grouping {
            bold().add_modifier(Modifier::REVERSED)
        } else {
            dim()
        };
        spans.push(Span::styled(format!(" {} {} ", number + 1, grouping.title()), style));
    }
    frame.render_widget(Line::from(spans), area);
}

/// With a sign; nothing for nothing.
pub fn signed(value: f64) -> String {
    let whole = value.abs().round() as u64;
    match (whole, value < 0.0) {
        (0, _) => String::new(),
        (whole, true) => format!("−{}", bytes(whole)),
        (whole, false) => format!("+{}", bytes(whole)),
    }
}

/// A column of numbers; the name stands behind them.
struct Column {
    title: &'static str,
    order: Order,
    width: u16,
    /// Shown in a narrow terminal, too, that the name has room.
    is_vital: bool,
}

const COLUMNS: [Column; 4] = [
    column("live", Order::Live, 11, true),
    column("objects", Order::Name, 10, false),
    column("growth", Order::Growth, 12, true),
    column("a second", Order::Rate, 12, false),
];
const ALL_COLUMNS_FROM: u16 = 72;

const fn column(title: &'static str, order: Order, width: u16, is_vital: bool) -> Column {
    Column {
        title,
        order,
        width,
        is_vital,
    }
}

fn draw_table(frame: &mut Frame, area: Rect, watch: &Watch, state: &State, rows: &[Row]) {
    if rows.is_empty() {
        let why = match (
            state.grouping.is_sampled(),
            watch.is_profiled(),
            state.search.is_empty(),
        ) {
            (_, _, false) => "nothing has these words in its name; Esc forgets them",
            (true, false, _) => "the heap profile of this process is off: P switches it on; 3 to 5 need none",
            (true, true, _) => "nothing was sampled yet",
            _ if state.grouping == Grouping::Caches => "the program has no object caches",
            _ => "nothing is allocated",
        };
        frame.render_widget(Paragraph::new(why).alignment(Alignment::Center).style(dim()), area);
        return;
    }
    let is_wide = area.width >= ALL_COLUMNS_FROM;
    let mut head: Vec<Cell> = COLUMNS
        .into_iter()
        .filter(|column| is_wide || column.is_vital)
        .map(|Column { title, order, .. }| {
            let is_sorted = order == state.order && title != "objects";
            let text = if is_sorted {
                format!("{title} ▼")
            } else {
                title.to_string()
            };
            Cell::from(Line::from(text).alignment(Alignment::Right))
        })
        .collect();
    head.push(Cell::from(if state.order == Order::Name {
        "where ▼"
    } else {
        "where"
    }));
    let lines = rows.iter().map(|row| table_row(row, is_wide));
    let widths = COLUMNS
        .into_iter()
        .filter(|column| is_wide || column.is_vital)
        .map(|column| Constraint::Length(column.width))
        .chain([Constraint::Fill(1)]);
    let table = Table::new(lines, widths)
        .header(TableRow::new(head).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut selected = TableState::default().with_selected(Some(state.selected.min(rows.len() - 1)));
    frame.render_stateful_widget(table, area, &mut selected);
}

fn table_row(row: &Row, is_wide: bool) -> TableRow<'_> {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let objects = if row.live_objects > 0.0 {
        count(row.live_objects.round() as u64)
    } else {
        String::new()
    };
    let growth = right(signed(row.growth_bytes));
    let growth = match (row.has_grown(), row.has_shrunk()) {
        (true, _) => growth.style(colored(Color::Red)),
        (_, true) => growth.style(colored(Color::Green)),
        _ => growth.style(dim()),
    };
    let cells = [
        right(bytes(row.live_bytes.round() as u64)),
        right(objects),
        growth,
        right(signed(row.bytes_a_second)),
    ];
    let cells = cells.into_iter().zip(COLUMNS);
    let cells = cells
        .filter(|(_, column)| is_wide || column.is_vital)
        .map(|(cell, _)| cell);
    TableRow::new(cells.chain([Cell::from(row.name.as_str())]))
}

fn draw_detail(frame: &mut Frame, area: Rect, row: Option<&Row>) {
    let Some(row) = row else { return };
    let mut lines: Vec<Line> = Vec::new();
    if row.live_error > 0.0 {
        lines.push(Line::raw(format!(
            "{} ± {} alive, {} ± {} since the beginning",
            bytes(row.live_bytes as u64),
            bytes(row.live_error as u64),
            match signed(row.growth_bytes) {
                nothing if nothing.is_empty() => "+0 B".to_string(),
                growth => growth,
            },
            bytes(row.growth_error as u64)
        )));
    }
    lines.extend(row.detail.iter().map(|line| Line::raw(line.as_str())));
    let block = Block::bordered().title(row.name.as_str());
    frame.render_widget(Paragraph::new(lines).block(block).wrap(Wrap { trim: false }), area);
}

const KEYS_IN_SHORT: &str = "q leave  h help  Tab view  g l r n sort  / search  Enter detail  p pause  z anew";

/// Whole ones.
fn keys_within(width: usize) -> &'static str {
    if KEYS_IN_SHORT.len() <= width {
        return KEYS_IN_SHORT;
    }
    let most = (width + 2).min(KEYS_IN_SHORT.len());
    &KEYS_IN_SHORT[..KEYS_IN_SHORT[..most].rfind("  ").unwrap_or(0)]
}

fn draw_foot(frame: &mut Frame, area: Rect, state: &State) {
    let search = match (state.is_searching, state.search.is_empty()) {
        (true, _) => format!("/{}_", state.search),
        (false, false) => format!("/{}   ", state.search),
        (false, true) => String::new(),
    };
    let rest = match &state.message {
        _ if state.is_searching => "",
        Some(message) => message.as_str(),
        None if state.search.is_empty() => keys_within(area.width.into()),
        None if state.has_detail => "Esc leaves the detail",
        None => "Esc forgets it",
    };
    // The end of what is typed.
    let room = usize::from(area.width).saturating_sub(rest.chars().count());
    let beyond = search.chars().count().saturating_sub(room);
    let search = search.chars().skip(beyond).collect::<String>();
    frame.render_widget(Line::from(vec![Span::raw(search), Span::styled(rest, dim())]), area);
}

const HELP_WIDTH: u16 = 92;

fn draw_help(frame: &mut Frame) {
    let lines: Vec<Line> = KEYS
        .iter()
        .map(|(key, what)| Line::from(vec![Span::styled(format!("{key:<16}"), bold()), Span::raw(*what)]))
        .chain([
            Line::raw(""),
            Line::raw("growth in red: more than chance explains. Call sites and threads are estimates"),
            Line::raw("from samples, the others are counted."),
        ])
        .collect();
    let whole = frame.area();
    // Where lines are broken, all the height is theirs.
    let (width, height) = match whole.width < HELP_WIDTH {
        true => (whole.width, whole.height),
        false => (HELP_WIDTH, (lines.len() as u16 + 2).min(whole.height)),
    };
    let area = Rect::new((whole.width - width) / 2, (whole.height - height) / 2, width, height);
    frame.render_widget(Clear, area);
    let help = Paragraph::new(lines).wrap(Wrap { trim: true });
    frame.render_widget(help.block(Block::bordered().title("vmag top")), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_cut() {
        assert_eq!(keys_within(80), KEYS_IN_SHORT); // a terminal of the usual width
        assert!(keys_within(79).ends_with("  p pause"));
        assert_eq!(
            [keys_within(7), keys_within(16), keys_within(15)],
            ["q leave", "q leave  h help", "q leave  h help"]
        );
        assert_eq!([keys_within(0), keys_within(6)], [""; 2]);
    }

    #[test]
    fn no_number_is_cut() {
        let parts = ["1 MiB allocated".to_string(), "profile off".to_string()];
        let of_width = |width| fitting(&parts, width);
        assert_eq!(of_width(28), "1 MiB allocated, profile off");
        assert_eq!([of_width(27), of_width(15)], [const { "1 MiB allocated" }; 2]);
        assert_eq!(of_width(14), "");
    }
}
