// The text that connects nginx, as docs/how-to/nginx.md explains it.

export const nginxDocs = 'https://github.com/spate-io/spate/blob/main/docs/how-to/nginx.md';

export const nginxSnippet = `# first: spate nginx install /usr/share/spate/nginx
http {
    include /usr/share/spate/nginx/conf/spate.conf;          # once

    server {
        server_name www.example.com;
        include /usr/share/spate/nginx/conf/spate_log.conf;  # once per server block
    }
}`;
