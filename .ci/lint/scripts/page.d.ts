// What names.go puts into the page's scripts before they run.
declare const NAMES: [string, string][];
