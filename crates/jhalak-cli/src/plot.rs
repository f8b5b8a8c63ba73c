//! The plot of `jhalak compare`: time and memory against length, side by side, as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::compare::{Compared, Comparison};
use crate::report;
use crate::step::Measurement;

const SIZE: (u32, u32) = (1080, 460);
const OURS: RGBColor = RGBColor(0, 114, 178);
const THEIRS: RGBColor = RGBColor(213, 94, 0);
const GREY: RGBColor = RGBColor(110, 110, 110);

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// One panel: what stands on its vertical axis.
struct Panel {
    title: &'static str,
    axis: &'static str,
    value: fn(&Measurement) -> f64,
    label: fn(f64) -> String,
    /// Labels stand at its powers.
    base: f64,
    /// Values below are drawn there: a logarithm needs a floor.
    floor: f64,
}

/// The whole figure.
pub(crate) fn draw(comparison: &Comparison) -> Result<String, String> {
    let mut svg = String::new();
    draw_into(&mut svg, comparison).map_err(|error| format!("cannot be drawn: {error}"))?;
    Ok(svg)
}

fn draw_into(svg: &mut String, comparison: &Comparison) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!(
        "jhalak and standard attention, {}, head dimension {}, f32",
        report::count(comparison.heads, "head"),
        comparison.head_dim
    );
    let root = root.titled(&title, ("sans-serif", 20))?;
    let (left, right) = root.split_horizontally(SIZE.0 / 2);
    let time = Panel {
        title: "Time of one forward pass",
        axis: "seconds",
        value: |m| m.seconds,
        label: report::time,
        base: 10.0,
        floor: 1e-7,
    };
    let memory = Panel {
        title: "Memory beyond q, k, v and out",
        axis: "bytes",
        value: |m| m.peak_bytes as f64,
        label: |bytes| report::bytes(bytes as u64),
        base: 4.0,
        floor: 4096.0,
    };
    time.draw(&left, &comparison.steps)?;
    memory.draw(&right, &comparison.steps)?;
    root.present()?;
    Ok(())
}

impl Panel {
    fn draw(&self, area: &Area<'_>, steps: &[Compared]) -> Drawn {
        let point = |n: usize, m: &Measurement| (n as f64, (self.value)(m).max(self.floor));
        let ours: Vec<_> = steps.iter().map(|s| point(s.seqlen, &s.jhalak)).collect();
        let theirs: Vec<_> =
            steps.iter().filter_map(|s| Some(point(s.seqlen, s.standard.as_ref()?))).collect();
        let stopped = steps.iter().find(|s| s.standard.is_none());
        let lengths = bounds(ours.iter().map(|p| p.0), 1.15);
        let values = bounds(ours.iter().chain(&theirs).map(|p| p.1), 2.0);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(86)
            .build_cartesian_2d(
                lengths.log_scale().base(2.0),
                values.clone().log_scale().base(self.base),
            )?;
        chart
            .configure_mesh()
            .x_desc("sequence length N")
            .y_desc(self.axis)
            .x_label_formatter(&|n| format!("{n:.0}"))
            .y_label_formatter(&|value| (self.label)(*value))
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 12))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for (name, points, color) in
            [("jhalak", ours, OURS), ("standard attention", theirs, THEIRS)]
        {
            chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
            chart
                .draw_series(points.into_iter().map(|p| Circle::new(p, 4, color.filled())))?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
        }
        if let Some(first) = stopped {
            let n = first.seqlen as f64;
            let line = [(n, values.start), (n, values.end)];
            chart.draw_series(DashedLineSeries::new(line, 4, 4, GREY.stroke_width(1)))?;
            // Beside the line, reading upwards, low enough to stay clear of the curves.
            let style = ("sans-serif", 12).into_font().color(&GREY);
            let style = style.transform(FontTransform::Rotate270);
            let bottom = values.start * (values.end / values.start).powf(0.03);
            for (text, beside) in [("standard attention", 1.02), ("stops: memory limit", 1.14)] {
                chart.draw_series([Text::new(text, (n * beside, bottom), style.clone())])?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 13))
            .draw()?;
        Ok(())
    }
}

/// From the least to the greatest value, with a margin that keeps the range from being empty.
fn bounds(values: impl Iterator<Item = f64>, margin: f64) -> std::ops::Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, 0f64), |(low, high), x| (low.min(x), high.max(x)));
    low / margin..high * margin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: f64, peak_bytes: u64) -> Measurement {
        Measurement { seconds, peak_bytes, largest_difference: None }
    }

    fn comparison(steps: usize, measured_standard: usize) -> Comparison {
        let step = |n: usize| {
            let seqlen = 1024usize << n;
            let square = (seqlen * seqlen) as f64;
            let standard = measured(square * 4e-9, 16 * (seqlen * seqlen) as u64);
            Compared {
                seqlen,
                jhalak: measured(square * 1.3e-9, 1200 * seqlen as u64),
                standard: (n < measured_standard).then_some(standard),
                standard_stopped: (n >= measured_standard).then(|| "too large".into()),
            }
        };
        Comparison {
            jhalak: "0.1.0",
            isa: "avx2".into(),
            threads: 2,
            dtype: "f32",
            heads: 4,
            head_dim: 64,
            memory_limit_bytes: 12 << 30,
            steps: (0..steps).map(step).collect(),
        }
    }

    #[test]
    fn both_panels_name_what_they_show() {
        let svg = draw(&comparison(6, 4)).unwrap();
        for words in [
            "4 heads, head dimension 64",
            "Time of one forward pass",
            "Memory beyond q, k, v and out",
            "sequence length N",
            "16384",
            "1.00 MiB",
            "stops: memory limit",
        ] {
            assert!(svg.contains(words), "{words}");
        }
        assert!(!draw(&comparison(6, 6)).unwrap().contains("stops: memory limit"));
    }

    #[test]
    fn one_length_or_no_memory_at_all_can_be_drawn() {
        draw(&comparison(1, 0)).unwrap();
        let mut flat = comparison(2, 2);
        flat.steps.iter_mut().for_each(|step| step.jhalak.peak_bytes = 0);
        draw(&flat).unwrap();
    }
}
