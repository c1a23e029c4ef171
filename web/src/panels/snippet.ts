// The text that connects nginx, as docs/how-to/nginx.md explains it.

export const nginxDocs = 'https://github.com/spate-io/spate/blob/main/docs/how-to/nginx.md';

export const nginxSnippet = `http {
    include /usr/share/spate/nginx/spate.conf;          # once

    server {
        server_name www.example.com;
        include /usr/share/spate/nginx/spate_log.conf;  # once per server block
    }
}`;
