//! Hearth's vocabulary as types, with units in the types.
//!
//! Every other crate speaks these words; this one makes no OS calls and does no I/O.
//!
//! * [`units`] – bytes, nanoseconds, GB/s: parsed from and printed for people.
//! * [`site`] – an allocation context: call-stack frames as (module, offset), with a source form.
//! * [`label`] – names for sites that tell them apart.
//! * [`chunk`] – large objects in slices with heat of their own.
//! * [`tier`] – tiers, spaces and platforms; every figure carries its [`tier::Origin`].
//! * [`observed`] – what a profile says, summed per site: what reports show and policies read.
//! * [`plan`] – what was decided: site to tier, and why.
//! * [`split`] – a site between two tiers.
//! * [`landing`] – where a guided run's objects really were.
//! * [`forecast`] – what plans are predicted to do.
//! * [`comparison`] – placements of one program side by side, as the lab measured them.

pub mod chunk;
pub mod comparison;
pub mod forecast;
pub mod label;
pub mod landing;
pub mod log;
pub mod observed;
pub mod plan;
pub mod site;
pub mod split;
pub mod tier;
pub mod units;

pub use chunk::{Chunk, ChunkAt, SizeClass};
pub use comparison::{Comparison, PlacementRun};
pub use forecast::{Curve, Forecast};
pub use landing::Landing;
pub use observed::{Asked, Life, Lines, Observed, Pattern, SiteUse, Touch};
pub use plan::{Plan, PlannedMove, PlannedPhase, PlannedSite, PlannedTier};
pub use site::{Apart, Frame, Module, NAMED, PYTHON, SOURCE, Site, SiteId, SiteKind, SourceLine};
pub use split::{Parts, Split};
pub use tier::{Coefficients, Figure, Origin, Platform, Space, Tier, TierKind, home};
pub use units::{Bytes, GbPerSec, Nanos};
