# A web application as many are: routes, templates, JSON, a cache of what was asked for lately. For puma (bench/experiments/web_server.py).
# SPDX-License-Identifier: BSD-2-Clause
require 'erb'
require 'json'
require 'digest/sha2' # not when first used: five threads at once would find it half loaded

ARTICLES = Array.new(2000) do |i|
  { id: i, title: "Article #{i}", tags: %w[memory slabs vmem pages magazines].rotate(i % 5).first(3), body: "Paragraph #{i}. " * (5 + i % 60) }
end.freeze
PAGE = ERB.new(<<~HTML)
  <html><head><title><%= title %></title></head><body><h1><%= ERB::Util.html_escape(title) %></h1>
  <% articles.each do |article| %><article id="<%= article[:id] %>"><h2><%= ERB::Util.html_escape(article[:title]) %></h2>
  <p><%= article[:body].split('. ').map { |part| ERB::Util.html_escape(part) }.join('. ') %></p>
  <ul><% article[:tags].each do |tag| %><li><a href="/tag/<%= tag %>"><%= tag %></a></li><% end %></ul></article><% end %></body></html>
HTML
RECENT = {}
LOCK = Mutex.new

def remember(key, value)
  LOCK.synchronize do
    RECENT[key] = value
    RECENT.delete(RECENT.keys.first) if RECENT.size > 500
  end
  value
end

def list(number)
  title, articles = "Page #{number}", ARTICLES.rotate(number * 7).first(8)
  PAGE.result(binding)
end

run lambda { |env|
  number = env['QUERY_STRING'].to_i
  case env['PATH_INFO']
  when '/list' then [200, { 'content-type' => 'text/html' }, [remember("list#{number}", list(number))]]
  when '/json'
    text = JSON.generate(ARTICLES.rotate(number).first(20).map { |article| article.merge(digest: Digest::SHA256.hexdigest(article[:body])) })
    [200, { 'content-type' => 'application/json' }, [remember("json#{number}", text)]]
  else
    found = ARTICLES.select { |article| article[:body].include?("#{number}. ") }.map { |article| JSON.parse(JSON.generate(article)) }
    [200, { 'content-type' => 'application/json' }, [JSON.generate(found.first(30))]]
  end
}
