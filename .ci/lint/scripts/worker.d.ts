// A service worker's own, which the library for workers has under another name.
interface WorkerGlobalScope { registration: ServiceWorkerRegistration; clients: Clients }
interface Event { data: any; waitUntil(until: Promise<any>): void; notification: Notification; action: string }
interface NotificationOptions { actions?: { action: string; title: string }[] }
