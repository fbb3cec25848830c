export class ReportFile {
  constructor(file: string);
  facts: object[];
}
