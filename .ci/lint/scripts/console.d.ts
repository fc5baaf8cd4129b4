// The console's pages are ours: an element found by its ID is what the page has there.
interface Document { getElementById(id: string): any }
interface Window { trustedTypes?: any }
interface EventTarget { closest: any; dataset: any; method: any; action: any; querySelector: any; querySelectorAll: any }
interface Credential { response: any; rawId: any }
