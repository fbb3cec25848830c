#!/usr/bin/env node
// Writes docs/STUDY-WORKLOAD.png, the curves of each workload as `gradring study --html` draws them, from
// docs/data/STUDY.json: of the studies that are given, by default of all. It needs Chromium.
//   node scripts/study/write-pictures.js study
const { execFileSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { studyPage } = require('../../dist/study/page');
const { STUDIES, committedResults } = require('./write-docs');

const DOCS = path.join(__dirname, '../../docs');
const SIZE = '1200,510';
// Without the inputs. The last label is that of the seeds, which are drawn.
const STYLE =
  '<style>.curves fieldset:first-child, .curves label:last-child, .curves .note, input { display: none }</style>';

/** Leaves only the curves of a workload on the page. */
const only = (page, id) =>
  page
    .replace('</head>', () => `${STYLE}</head>`)
    .replace(
      '</body>',
      () => `<script>document.body.replaceChildren(document.getElementById('${id}'))</script></body>`,
    );

const folder = mkdtempSync(path.join(tmpdir(), 'gradring-pictures-'));
const given = process.argv.slice(2);
for (const study of given.length > 0 ? given : STUDIES) {
  const results = committedResults(study);
  for (const [i, { name }] of results.workloads.entries()) {
    const page = path.join(folder, `${study}-${name}.html`);
    writeFileSync(page, only(studyPage(results), `curves-${i}`));
    const flags = ['--headless', '--no-sandbox', '--hide-scrollbars', '--virtual-time-budget=5000'];
    const picture = path.join(DOCS, `${study}-${name}.png`);
    const profile = `--user-data-dir=${path.join(folder, 'profile')}`;
    const args = [...flags, profile, `--window-size=${SIZE}`, `--screenshot=${picture}`, `file://${page}`];
    execFileSync('chromium', args, { stdio: 'ignore' });
  }
}
rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
