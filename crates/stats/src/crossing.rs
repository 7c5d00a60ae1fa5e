//! Where one curve rises above another: crossings, and what they are worth.

use crate::distribution::t_quantile;
use crate::generator::Generator;
use crate::location::{trimmed_cut, trimmed_mean};

/// Fewest blocks that a place needs before it is looked at.
const FEWEST: usize = 3;
/// Most resamples: more gain nothing.
const MOST_RESAMPLES: usize = 100_000;

/// The gain of one thing over another along a scale, block by block.
#[derive(Clone, Copy, Debug)]
pub struct Gains<'a> {
    /// The places along the scale, rising.
    pub places: &'a [f64],
    /// One row a block, one number a place: positive where the one is better. A block may lack
    /// some places.
    pub blocks: &'a [Vec<Option<f64>>],
    /// The least gain, and the least loss, that matters; not negative.
    pub bound: f64,
}

/// How a gain goes along the scale.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// It is there at every place.
    Always,
    /// At no place is there one that matters.
    Never,
    /// It comes and goes, in the order of the scale.
    Edges(Vec<GainEdge>),
    /// The blocks leave it open.
    Open,
}

/// A place where a gain begins or ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainEdge {
    /// Whether it begins here, going up the scale; else it ends.
    pub rising: bool,
    /// Whether no difference that matters lies on the other side, rather than a loss.
    pub fades: bool,
    /// The place, interpolated between the places that were measured.
    pub at: f64,
    /// Lower end of the interval; absent below the first place.
    pub low: Option<f64>,
    /// Upper end; absent above the last place.
    pub high: Option<f64>,
}

/// How often, at which level and from which seed the blocks are drawn again.
#[derive(Clone, Copy, Debug)]
pub struct Resampling {
    /// Confidence level, such as 0.95.
    pub level: f64,
    /// How often, from 100 to 100,000.
    pub times: usize,
    /// The generator's seed.
    pub seed: u64,
}

/// Follows a gain along its scale.
///
/// At each place the blocks give their 20 % trimmed mean, and between places it goes in a
/// straight line. Where a gain that matters turns into a loss that matters, the edge is where the
/// line is zero; where it fades into differences below `bound`, the edge is where it passes
/// `bound`. Zeros among differences that do not matter are no edges.
///
/// Whole blocks are drawn with replacement, the same for all places, since what disturbs a block
/// disturbs all of it. The percentile interval is widened about the estimate as Student's t is
/// wider than the normal distribution (the expanded percentile interval: Hesterberg, "What
/// teachers should know about the bootstrap", The American Statistician 69, 2015), since few
/// blocks would otherwise look better than they are. A course without edges must be there by the
/// interval of each place, or in as many resamples as lie above the interval's lower end; a
/// stretch between two edges in at least `level` of them. An edge whose interval has no end
/// within the range on either side is left out.
///
/// `None` for fewer than two places, places that do not rise, a row that does not have one number
/// a place, a place with fewer than three blocks, what is not finite, and a resampling out of
/// its bounds.
#[must_use]
pub fn course(gains: Gains<'_>, resampling: Resampling) -> Option<Course> {
    let columns = columns(gains, resampling)?;
    let observed = Curve {
        places: gains.places,
        gains: &columns.iter().map(|c| c.mean).collect::<Vec<f64>>(),
        bound: gains.bound,
    };
    if let Some(course) = plain(&columns, gains.bound, resampling.level) {
        return Some(course);
    }
    let draws = Draws::of(&columns, gains.blocks.len(), resampling)?;
    let mut breaks = observed.breaks();
    if breaks.is_empty() {
        let better = observed.state(0) == State::Better;
        // Of one side alone, as an end of the interval is.
        let most = 0.5 + resampling.level / 2.0;
        let never = |d: &[f64]| !d.iter().any(|g| state(*g, gains.bound) == State::Better);
        let always = |d: &[f64]| d.iter().all(|g| *g > 0.0);
        return Some(match better {
            true if draws.share(always) >= most => Course::Always,
            false if draws.share(never) >= most => Course::Never,
            _ => Course::Open,
        });
    }
    while let Some(weak) = observed.weakest(&breaks, &draws, resampling.level) {
        breaks.drain(weak..=weak + 1);
    }
    let edges: Vec<GainEdge> = (0..breaks.len())
        .filter_map(|at| observed.edge(&breaks, at, &draws, resampling.level))
        .collect();
    Some(if edges.is_empty() {
        Course::Open
    } else {
        Course::Edges(edges)
    })
}

/// What a gain at one place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Better,
    Same,
    Worse,
}

fn state(gain: f64, bound: f64) -> State {
    if gain > 0.0 && gain >= bound {
        State::Better
    } else if gain < 0.0 && gain <= -bound {
        State::Worse
    } else {
        State::Same
    }
}

/// A course that the interval of each place shows by itself.
fn plain(columns: &[Column], bound: f64, level: f64) -> Option<Course> {
    let all = |holds: &dyn Fn(f64, f64) -> bool| {
        columns.iter().all(|column| {
            let values: Vec<f64> = column.sorted.iter().map(|(v, _)| *v).collect();
            let interval = trimmed_mean(&values).and_then(|l| l.interval(level));
            interval.is_some_and(|i| holds(column.mean, i.low) && holds(column.mean, i.high))
        })
    };
    if all(&|mean, end| state(mean, bound) == State::Better && end > 0.0) {
        Some(Course::Always)
    } else if all(&|_, end| state(end, bound) != State::Better) {
        Some(Course::Never)
    } else {
        None
    }
}

/// A change of state between two places.
#[derive(Clone, Copy, Debug)]
struct Break {
    rising: bool,
    fades: bool,
    /// The last place of the one state and the first of the other.
    between: (usize, usize),
}

/// The values of one place in order, each with its block.
struct Column {
    sorted: Vec<(f64, usize)>,
    mean: f64,
    /// How much wider the interval of few blocks is than the resamples.
    expansion: f64,
}

fn columns(gains: Gains<'_>, resampling: Resampling) -> Option<Vec<Column>> {
    let count = gains.places.len();
    let rises = gains.places.windows(2).all(|w| w[0] < w[1]);
    let fits = count >= 2
        && rises
        && gains.places.iter().all(|p| p.is_finite())
        && gains.bound >= 0.0
        && gains.bound.is_finite()
        && gains.blocks.iter().all(|row| row.len() == count)
        && (100..=MOST_RESAMPLES).contains(&resampling.times)
        && resampling.level > 0.0
        && resampling.level < 1.0;
    if !fits {
        return None;
    }
    (0..count)
        .map(|place| {
            let rows = gains.blocks.iter().enumerate();
            let mut sorted: Vec<(f64, usize)> = rows
                .filter_map(|(block, row)| Some((row[place]?, block)))
                .collect();
            if sorted.len() < FEWEST || sorted.iter().any(|(v, _)| !v.is_finite()) {
                return None;
            }
            sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let mean = mean(&sorted, |_| 1)?;
            let expansion = expansion(sorted.len(), resampling.level)?;
            Some(Column {
                sorted,
                mean,
                expansion,
            })
        })
        .collect()
}

fn expansion(count: usize, level: f64) -> Option<f64> {
    let tail = 0.5 + level / 2.0;
    let normal = t_quantile(tail, 1e6)?;
    let n = count as f64;
    Some(t_quantile(tail, n - 1.0)? / normal * (n / (n - 1.0)).sqrt())
}

/// The trimmed mean of values in order, each as often as its block was drawn.
fn mean(sorted: &[(f64, usize)], times: impl Fn(usize) -> usize) -> Option<f64> {
    let total: usize = sorted.iter().map(|(_, block)| times(*block)).sum();
    if total == 0 {
        return None;
    }
    let cut = trimmed_cut(total);
    let (first, last) = (cut, total - cut);
    let (mut seen, mut sum) = (0, 0.0);
    for (value, block) in sorted {
        let next = seen + times(*block);
        let kept = next.min(last).saturating_sub(seen.max(first));
        sum += kept as f64 * value;
        seen = next;
    }
    let mean = sum / (last - first) as f64;
    mean.is_finite().then_some(mean)
}

/// The means of every resample that has values at all places.
struct Draws(Vec<Vec<f64>>);

impl Draws {
    fn of(columns: &[Column], blocks: usize, resampling: Resampling) -> Option<Draws> {
        let mut generator = Generator::new(resampling.seed);
        let mut times = vec![0_usize; blocks];
        let mut draws = Vec::with_capacity(resampling.times);
        for _ in 0..resampling.times {
            times.fill(0);
            for _ in 0..blocks {
                times[generator.below(blocks)] += 1;
            }
            let drawn = columns.iter().map(|column| {
                let mean = mean(&column.sorted, |block| times[block])?;
                Some(column.mean + column.expansion * (mean - column.mean))
            });
            draws.extend(drawn.collect::<Option<Vec<f64>>>());
        }
        (!draws.is_empty()).then_some(Draws(draws))
    }

    /// The share of the resamples of which something holds.
    fn share(&self, holds: impl Fn(&[f64]) -> bool) -> f64 {
        self.0.iter().filter(|d| holds(d)).count() as f64 / self.0.len() as f64
    }
}

/// The gains at the places, with straight lines between them.
struct Curve<'c> {
    places: &'c [f64],
    gains: &'c [f64],
    bound: f64,
}

impl Curve<'_> {
    fn state(&self, at: usize) -> State {
        state(self.gains[at], self.bound)
    }

    /// Every change between better and not, in the order of the scale.
    fn breaks(&self) -> Vec<Break> {
        let mut breaks = Vec::new();
        let mut push = |rising, fades, first, second| {
            breaks.push(Break {
                rising,
                fades,
                between: (first, second),
            });
        };
        // The last place with a difference that matters, and what it was.
        let mut last: Option<(usize, State)> = None;
        for at in 0..self.gains.len() {
            let now = self.state(at);
            if now == State::Same {
                continue;
            }
            match last {
                None if now == State::Better && at > 0 => push(true, true, at - 1, at),
                Some((before, was)) if was != now => {
                    push(now == State::Better, false, before, at);
                }
                Some((before, State::Better)) if before + 1 < at => {
                    push(false, true, before, before + 1);
                    push(true, true, at - 1, at);
                }
                _ => {}
            }
            last = Some((at, now));
        }
        if let Some((before, State::Better)) = last
            && before + 1 < self.gains.len()
        {
            push(false, true, before, before + 1);
        }
        breaks
    }

    /// What a break is a passing of.
    fn level(&self, fades: bool) -> f64 {
        if fades { self.bound } else { 0.0 }
    }

    /// The place between two breaks, or outside of them, that speaks most for its state.
    fn strongest(&self, from: usize, to: usize, better: bool) -> usize {
        let sign = if better { 1.0 } else { -1.0 };
        let strength = |at: &usize| sign * self.gains[*at];
        (from..=to)
            .max_by(|a, b| strength(a).total_cmp(&strength(b)))
            .unwrap_or(from)
    }

    /// The stretch before the break of that number, or after the last one.
    fn stretch(&self, breaks: &[Break], number: usize) -> (usize, usize) {
        let before = number.checked_sub(1).and_then(|n| breaks.get(n));
        let first = before.map_or(0, |b| b.between.1);
        let last = breaks
            .get(number)
            .map_or(self.gains.len() - 1, |b| b.between.0);
        (first, last)
    }

    /// The first break of the two around the stretch that is there in the fewest resamples, if
    /// these are too few.
    fn weakest(&self, breaks: &[Break], draws: &Draws, level: f64) -> Option<usize> {
        let shares = breaks.windows(2).enumerate().map(|(at, pair)| {
            let better = pair[0].rising;
            let (from, to) = self.stretch(breaks, at + 1);
            let place = self.strongest(from, to, better);
            let levels = [pair[0], pair[1]].map(|b| self.level(b.fades));
            let stands = |d: &[f64]| {
                levels
                    .iter()
                    .all(|level| (d[place] > *level) == better && d[place] != *level)
            };
            (at, draws.share(stands))
        });
        let (at, least) = shares.min_by(|a, b| a.1.total_cmp(&b.1))?;
        (least < level).then_some(at)
    }

    /// A break with its place and interval; none where the interval has no end within the range.
    fn edge(&self, breaks: &[Break], number: usize, draws: &Draws, level: f64) -> Option<GainEdge> {
        let Break { rising, fades, .. } = breaks[number];
        let (first, last) = (
            self.stretch(breaks, number),
            self.stretch(breaks, number + 1),
        );
        let from = self.strongest(first.0, first.1, !rising);
        let to = self.strongest(last.0, last.1, rising);
        let passed = self.level(fades);
        let at = passing(self.places, self.gains, (from, to), passed, rising);
        let mut found: Vec<f64> = draws
            .0
            .iter()
            .map(|d| passing(self.places, d, (from, to), passed, rising))
            .collect();
        found.sort_unstable_by(f64::total_cmp);
        let most = (found.len() - 1) as f64;
        let tail = (1.0 - level) / 2.0;
        let below = |tail: f64| found[(tail * most).floor() as usize];
        let above = |tail: f64| found[((1.0 - tail) * most).ceil() as usize];
        // With one end alone it is seen on one side only, where any of the places may have been
        // wild: that side must stand the stricter for their number.
        let strict = tail / self.places.len() as f64;
        let (from_below, from_above) = (below(tail).is_finite(), above(tail).is_finite());
        let seen = match (from_below, from_above) {
            (true, true) => true,
            (true, false) => below(strict).is_finite(),
            (false, true) => above(strict).is_finite(),
            (false, false) => false,
        };
        let (low, high) = (below(tail).min(at), above(tail).max(at));
        // Between two edges an end cannot lie beyond the range.
        let low = if number == 0 {
            low
        } else {
            low.max(self.places[from])
        };
        let high = if number + 1 == breaks.len() {
            high
        } else {
            high.min(self.places[to])
        };
        let edge = GainEdge {
            rising,
            fades,
            at,
            low: low.is_finite().then_some(low),
            high: high.is_finite().then_some(high),
        };
        (at.is_finite() && seen).then_some(edge)
    }
}

/// Where the line between two places passes a level in a direction, the middle one of several;
/// infinite to the side where it must lie if it does not.
fn passing(
    places: &[f64],
    gains: &[f64],
    (from, to): (usize, usize),
    level: f64,
    rising: bool,
) -> f64 {
    let above = |at: usize| gains[at] >= level;
    let passes = |at: &usize| above(*at) != above(at + 1) && above(at + 1) == rising;
    let found: Vec<usize> = (from..to).filter(passes).collect();
    if found.is_empty() {
        // Without a passing, a line that ends where it should has been there all along.
        let all_along = above(to) == rising;
        return if all_along {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    let at = found[found.len() / 2];
    let share = (level - gains[at]) / (gains[at + 1] - gains[at]);
    places[at] + share * (places[at + 1] - places[at])
}
