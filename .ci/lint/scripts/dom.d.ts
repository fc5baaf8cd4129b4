// What the scripts of pages ask of any element, though only some have it: they look
// whether it is there. A name that is not here or in the DOM's own types is a mistake.
interface Element {
  focus(options?: FocusOptions): void;
  type: any; value: any; name: any; checked: any; disabled: any; title: any;
  readonly sheet: CSSStyleSheet | null; readonly dataset: DOMStringMap; readonly isContentEditable: boolean;
  defaultValue: any; defaultChecked: any; selectionStart: any; selectionEnd: any;
  editContext: any;
}
interface Node { getAttribute(name: string): any; data: any; tagName: any; value: any; getElementById(id: string): any }
interface CSSStyleDeclaration { webkitTextSecurity: string }
interface AnimationEffect { target: any }
interface PerformanceEntry {
  loadEventEnd: any; domContentLoadedEventEnd: any; responseStart: any; activationStart: any; transferSize: any; initiatorType: any;
  renderBlockingStatus: any; element: any; url: any;
}
// A promise that is resolved without a value.
interface PromiseConstructor { new (executor: (resolve: (value?: any) => void, reject: (reason?: any) => void) => void): Promise<any> }
