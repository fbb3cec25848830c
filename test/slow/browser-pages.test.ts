import { chartPage } from '../../src/bench/collectives/chart-page';
import type { CollectiveRow } from '../../src/bench/collectives/row';
import { studyPage } from '../../src/study/page';
import type { StudyResults } from '../../src/study/results';
import { summarise, type Training } from '../../src/study/summarise';
import { OPTIONS, row } from '../bench/collectives/chart-rows';
import { FACTS, generatedTrainings } from '../study/generated-study';
import { openInBrowser, testInBrowser } from '../support/browser';

describe('the page of a benchmark', () => {
  /** What a browser makes of a page with these rows. */
  const openRows = (rows: readonly CollectiveRow[], script?: string) => openInBrowser(chartPage(rows, OPTIONS), script);

  testInBrowser.each([
    ['one point', [row(4_096)], '2'],
    ['none', [row(0)], undefined],
  ])('a browser draws it: %s', (_, rows, drawn) => {
    const { dom, console } = openRows(rows);
    expect(/<html[^>]* data-drawn="(\d+)"/.exec(dom)?.[1]).toBe(drawn);
    expect(dom).toMatch(/<h2>All rows<\/h2>/);
    if (drawn !== undefined) expect(dom).toMatch(/<canvas[^>]*>[^]*size[^]*p50/);
    expect(console).not.toMatch(/CONSOLE/);
  });

  testInBrowser(
    'the legend has the values of the largest size until the pointer is at another, and again after',
    () => {
      const script = `
      const legends = [];
      const note = () => legends.push(document.querySelector('.u-legend').innerText.replace(/\\s+/g, ' '));
      const over = document.querySelector('.u-over');
      const plot = over.getBoundingClientRect();
      const point = type => over.dispatchEvent(new MouseEvent(type, { clientX: plot.left + 1, clientY: plot.top + 9 }));
      note();
      point('mouseenter');
      point('mousemove');
      note();
      point('mouseleave');
      note();
      document.documentElement.dataset.legends = JSON.stringify(legends);`;
      const { dom, console } = openRows([row(1), row(4_096), row(1 << 20)], script);
      const [before, during, after] = JSON.parse(
        /data-legends="([^"]*)"/.exec(dom)![1]!.replaceAll('&quot;', '"'),
      ) as string[];
      expect(before).toMatch(/^size ?4 MiB p50 ?1\.05 s p99 ?1\.05 s min ?1\.05 s$/);
      expect(during).toMatch(/^size ?4 B p50 ?101 µs p99 ?201 µs min ?91 µs$/);
      expect(after).toBe(before);
      expect(console).not.toMatch(/CONSOLE/);
    },
  );
});

describe('the page of a study', () => {
  const resultsOf = (trainings: readonly Training[]): StudyResults =>
    JSON.parse(JSON.stringify(summarise(trainings, FACTS))) as StudyResults;

  testInBrowser('a browser draws all curves, against what is chosen, for the methods that are chosen', () => {
    const script = `
      const [place] = document.querySelectorAll('.curves');
      const notes = [];
      const note = () => notes.push([...place.querySelectorAll('output')].map(each => each.textContent));
      const labels = [...place.querySelectorAll('label')];
      const click = name => labels.find(label => label.textContent.trim() === name).querySelector('input').click();
      (async () => {
        note();
        for (const name of ['bytes', 'seconds', 'dense again', 'every seed (thin)']) {
          click(name);
          for (let i = 0; i < 9; i++) await undefined; // uPlot works in microtasks, and so ends before the page is loaded
          note();
        }
        const { width, left, top } = place.querySelector('.u-over').getBoundingClientRect();
        place.querySelector('.u-over').dispatchEvent(new MouseEvent('mouseenter', { clientX: left + 1, clientY: top + 9 }));
        place.querySelector('.u-over').dispatchEvent(new MouseEvent('mousemove', { clientX: left + 1, clientY: top + 9 }));
        note();
        document.documentElement.dataset.notes = JSON.stringify(notes);
      })();`;
    const { dom, console } = openInBrowser(studyPage(resultsOf(generatedTrainings(4, 2))), script);
    expect(/<html[^>]* data-drawn="(\d+)"/.exec(dom)?.[1]).toBe('6');
    const notes = JSON.parse(/data-notes="([^"]*)"/.exec(dom)![1]!.replaceAll('&quot;', '"')) as [string, string][];
    const [, error] = notes[0]!;
    expect(error).toMatch(/^At the end: dense \d\.\d+ %, dense again .*, gradient dropping \d\.\d+ %/);
    expect(notes[1]).toEqual(notes[0]); // the ends are the same, whatever the axis
    expect(notes[2]).toEqual(notes[0]);
    expect(notes[3]![1]).toBe(error.replace(/dense again \S+ %, /, ''));
    expect(notes[4]).toEqual(notes[3]); // the readout has means only
    expect(notes[5]![0]).toMatch(/^[\d.]+ s: dense [\d.]+, dgc /);
    expect(console).not.toMatch(/CONSOLE/);
  });

  testInBrowser('a browser draws the page of a study with one seed, and of one that diverged', () => {
    const nothing = { step: [], loss: [], error: [], bytes: [], seconds: [] };
    const diverged = {
      score: NaN,
      logLoss: NaN,
      examples: [],
      bytesSentPerRank: 0,
      denseBytesPerRank: 0,
      curve: nothing,
    };
    const one = generatedTrainings(1, 1).map(each => ({ ...each, ...(each.method === 'TernGrad' && diverged) }));
    const { dom, console } = openInBrowser(studyPage(resultsOf(one)));
    expect(/<html[^>]* data-drawn="(\d+)"/.exec(dom)?.[1]).toBe('6');
    expect(dom).not.toContain('NaN');
    expect(dom).not.toContain('Infinity');
    expect(console).not.toMatch(/CONSOLE/);
  });
});
