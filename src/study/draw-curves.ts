import type uPlot from 'uplot';
import type { ChartTools } from '../charts/chart-tools';
import type { WorkloadCurves } from './curves';

/**
 * Draws the curves of a page in a browser, and makes the inputs beside them work. The text of this function is part of
 * the page, so the function must not use anything from outside itself.
 */
export function drawCurves(
  UPlot: typeof uPlot,
  { color, number, decades, axis, draw, remove }: ChartTools,
  workloads: readonly WorkloadCurves[],
): void {
  type Over = 'step' | 'bytes' | 'seconds';
  const bytesText = (bytes: number): string =>
    bytes < 1e6 ? `${number(bytes / 1e3)} kB` : bytes < 1e9 ? `${number(bytes / 1e6)} MB` : `${number(bytes / 1e9)} GB`;
  const X = {
    step: { label: 'steps', text: number },
    bytes: { label: 'bytes that a rank sent', text: bytesText },
    seconds: { label: 'seconds', text: (value: number): string => `${number(value)} s` },
  } as const;
  /** The ticks of a logarithmic axis from a value to another: as many as there is room for. */
  const ticks = (least: number, most: number): number[] => {
    const [from, to] = decades(least, most);
    const powers = Array.from({ length: Math.round(Math.log10(to / from)) }, (_, i) => from * 10 ** i);
    const choices = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1]].map(within =>
      powers.flatMap(power => within.map(each => each * power)).filter(value => value >= least && value <= most),
    );
    return choices.find(({ length }) => length <= 8) ?? choices.at(-1)!;
  };

  for (const { id, percent, methods } of workloads) {
    const place = document.getElementById(id)!;
    const checked = (name: string): Set<string> =>
      new Set(
        Array.from(place.querySelectorAll<HTMLInputElement>(`input[name^="${name}"]:checked`), ({ value }) => value),
      );
    // The seeds of all methods lie below the means of all.
    const curves = [
      ...methods.flatMap((method, m) => method.seeds.map(curve => ({ ...method, m, curve, isMean: false }))),
      ...methods.map((method, m) => ({ ...method, m, curve: method.mean, isMean: true })),
    ];
    let plots: uPlot[] = [];

    const show = (): void => {
      const shown = checked('method');
      const withSeeds = checked('seeds').size > 0;
      for (const plot of plots) {
        plot.batch(() =>
          curves.forEach(({ m, isMean }, i) => {
            const wanted = shown.has(String(m)) && (isMean || withSeeds);
            if (plot.series[i + 1]!.show !== wanted) plot.setSeries(i + 1, { show: wanted });
          }),
        );
      }
    };

    const chart = (figure: HTMLElement, y: 'loss' | 'error', over: Over): uPlot => {
      const text = (value: number): string => (y === 'error' && percent ? `${number(value * 100)} %` : number(value));
      const data = UPlot.join(
        curves.map(({ curve }): uPlot.AlignedData => {
          // A logarithmic axis has no zero.
          const kept = curve.step.flatMap((_, i) => (over === 'bytes' && curve.bytes[i]! <= 0 ? [] : [i]));
          return [kept.map(i => curve[over][i]!), kept.map(i => curve[y][i]!)];
        }),
      );
      const isLogarithmic = curves.every(({ curve }) => curve[y].every(value => value === null || value > 0));
      const readout = figure.querySelector('output')!;
      /** The values of the means at the point next to the cursor, or at their ends. */
      const read = (u: uPlot): void => {
        const { idx } = u.cursor;
        const at = (values: ArrayLike<number | null | undefined>): number | undefined => {
          const from = idx ?? values.length - 1;
          for (let reach = 0; reach < values.length; reach++) {
            for (const i of [from - reach, from + reach]) if (values[i] != null) return i;
          }
          return undefined;
        };
        const parts = curves.flatMap(({ name, isMean }, i) => {
          const found = at(u.data[i + 1]!);
          if (!isMean || !u.series[i + 1]!.show || found === undefined) return [];
          return [`${name} ${text(u.data[i + 1]![found]!)}`];
        });
        readout.textContent = `${idx == null ? 'At the end' : X[over].text(u.data[0][idx]!)}: ${parts.join(', ')}`;
      };
      return draw(
        figure,
        300,
        {
          scales: {
            x: {
              time: false,
              ...(over === 'bytes' && { distr: 3, range: (_u, least, most) => [least / 1.2, most * 1.2] }),
            },
            y: isLogarithmic
              ? { distr: 3, range: (_u, least, most) => (least == null ? [0.1, 1] : [least / 1.1, most * 1.1]) }
              : { range: (_u, least, most) => (least == null ? [0, 1] : [Math.min(0, least), most * 1.05]) },
          },
          axes: [
            {
              ...axis,
              label: X[over].label,
              labelSize: 22,
              ...(over === 'bytes' && {
                splits: (_u: uPlot, _axis: number, least: number, most: number) => ticks(least, most),
                filter: (u: uPlot, splits: number[]) =>
                  splits.filter((_, i) => i % Math.ceil((splits.length * 70) / u.width) === 0),
              }),
              values: (_u, splits) => splits.map(value => (value == null ? '' : X[over].text(value))),
            },
            {
              ...axis,
              size: 62,
              ...(isLogarithmic && {
                splits: (_u: uPlot, _axis: number, least: number, most: number) => ticks(least, most),
                filter: (_u: uPlot, splits: number[]) => splits,
              }),
              values: (_u, splits) => splits.map(value => (value == null ? '' : text(value))),
            },
          ],
          legend: { show: false },
          cursor: { y: false, points: { show: false } },
          series: [
            {},
            ...curves.map(({ look, isMean }): uPlot.Series => ({
              stroke: () => `${color(look.color)()}${isMean ? '' : '55'}`,
              width: isMean ? 2.5 : 0.75,
              ...(look.dashed && { dash: [7, 4] }),
              points: { show: false },
              spanGaps: true,
            })),
          ],
          hooks: { ready: [read], setCursor: [read], setSeries: [read] },
        },
        data,
      );
    };

    const drawAll = (): void => {
      plots.forEach(remove);
      const [over] = checked('over') as Set<Over>;
      const [loss, error] = Array.from(place.querySelectorAll('figure'));
      plots = [chart(loss!, 'loss', over!), chart(error!, 'error', over!)];
      show();
    };
    place.addEventListener('change', ({ target }) =>
      (target as HTMLInputElement).name.startsWith('over') ? drawAll() : show(),
    );
    drawAll();
  }
}
